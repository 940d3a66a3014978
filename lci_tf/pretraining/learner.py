"""C, F and D, and the step that trains all three."""

from typing import NamedTuple

import tensorflow as tf

from lci_tf.presets import Settings
from lci_tf.pretraining import losses
from lci_tf.transforms import LimitedContextInpainting, Transformation, labels_of
from lci_tf.transforms.cut import cut

Draws = dict[str, tf.Tensor]


class Patches(NamedTuple):
    """What F was given and what it made of it. All [n, p, p, 3], in [-1, 1].

    Attributes:
      original: e, cut out of the images at `places`.
      erased: e with noise in its centre.
      made: what F made, as one tensor: F(e), if patches are autoencoded at all, and then r.
      autoencoded: F(e), or None.
      inpainted: r = F(erased).
      places: int32 [n, 2].
    """

    original: tf.Tensor
    erased: tf.Tensor
    made: tf.Tensor
    autoencoded: tf.Tensor | None
    inpainted: tf.Tensor
    places: tf.Tensor


class Pretraining(tf.keras.Model):
    """Trains C to tell transformations apart, with F and D if inpainting is one of them.

    Each of the three may be missing:
      - without LCI among the transformations there is neither F nor D;
      - without D, F is frozen (Table 1, d);
      - without C, F and D are trained alone, so as to be frozen later.
    """

    def __init__(
        self,
        classifier: tf.keras.Model | None,
        inpainter: tf.keras.Model | None,
        discriminator: tf.keras.Model | None,
        transforms: list[Transformation | LimitedContextInpainting],
        settings: Settings,
    ):
        super().__init__(name="pretraining")
        self.classifier, self.inpainter, self.discriminator = classifier, inpainter, discriminator
        self.labels = labels_of(transforms)
        self.transforms = transforms
        self.lci = next((t for t in transforms if isinstance(t, LimitedContextInpainting)), None)
        self._settings = settings
        self.steps_done = tf.Variable(
            0, trainable=False, dtype=tf.int64, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA
        )
        self.means = {name: tf.keras.metrics.Mean(name) for name in self._metric_names()}

    def compile(self, classifier_optimizer=None, inpainter_optimizer=None, discriminator_optimizer=None, **kwargs):
        super().compile(**kwargs)
        self.classifier_optimizer = classifier_optimizer
        self.inpainter_optimizer = inpainter_optimizer
        self.discriminator_optimizer = discriminator_optimizer

    def train_step(self, batch):
        """One update of every player, all from the same forward pass.

        Args:
          batch: `"image"`: [n, s, s, 3] in [-1, 1], s = crop + margin; `"draws"`: see `batches.draw`.
        """
        gradients, results = self.gradients(batch["image"], batch["draws"])
        for player, values in gradients.items():
            norm = tf.linalg.global_norm(values)
            if tf.is_tensor(self._loss_scale()):  # then an overflow is no divergence, but a step left out
                norm = tf.where(tf.math.is_finite(norm), norm, 0.0)
            results[f"gradient_norm/{player}"] = norm
            variables = getattr(self, player).trainable_variables
            self.optimizer_of(player).apply_gradients(
                zip(values, variables, strict=True), experimental_aggregate_gradients=False
            )
        self.steps_done.assign_add(1)
        for name, value in results.items():
            self.means[name].update_state(value)
        return {name: mean.result() for name, mean in self.means.items()}

    def gradients(self, x: tf.Tensor, draws: Draws) -> tuple[dict[str, list[tf.Tensor]], dict[str, tf.Tensor]]:
        """The gradients of each player's loss over the global batch, by player, and what to report of this replica."""
        weight, results = self._settings, {}
        with tf.GradientTape(persistent=True) as tape:
            patches = self.inpaint(x, draws)  # eqs. 2 and 3
            if self.classifier:
                images, labels = self._stacked(self.transformed(x, patches, draws))  # eq. 4 is one of them
                logits = self.classifier(images, training=True)["logits"]
                loss_ssl = losses.classification(logits, labels)  # eq. 1
                results |= {"loss/classifier": loss_ssl, **self._accuracies(logits, labels)}
            if self.discriminator:
                pairs = tf.concat([_pairs(patches.original), _pairs(patches.inpainted)], axis=0)
                real, fake = tf.split(self.discriminator(pairs, training=True), 2)
                loss_d = losses.discriminator_hinge(real, fake)
                gan = losses.inpainter_hinge(fake)
                border = losses.border(patches.inpainted, patches.original, self.lci.mask)
                loss_f = gan + weight.border_weight * border  # eq. 5, but for -L_SSL, which comes below
                results |= {"loss/discriminator": loss_d, "loss/inpainter_gan": gan, "loss/border": border}
                if patches.autoencoded is not None:
                    autoencoding = losses.autoencoding(patches.autoencoded, patches.original)
                    loss_f += weight.autoencoding_weight * autoencoding  # L_inp,AE
                    results["loss/autoencoding"] = autoencoding

        # Every replica holds the means over its own part of the batch: their share in the mean over all of it.
        share = self._loss_scale() / tf.cast(self.distribute_strategy.num_replicas_in_sync, tf.float32)
        gradients = {}
        at_patches = 0.0
        if self.classifier:
            at = {"classifier": self.classifier.trainable_variables}
            if self.discriminator and weight.adversarial_classifier:
                at["patches"] = patches.made
            # One backward pass through C serves both: its gradient at F's patches, negated, is what C is to F.
            found = tape.gradient(loss_ssl, at, output_gradients=share)
            gradients["classifier"] = found["classifier"]
            at_patches -= found.get("patches", 0.0)
        if self.discriminator:
            gradients["discriminator"] = tape.gradient(loss_d, self.discriminator.trainable_variables, share)
            at_patches += tape.gradient(loss_f, patches.made, share)
            gradients["inpainter"] = tape.gradient(patches.made, self.inpainter.trainable_variables, at_patches)
        return self._summed(gradients), results

    def see(self, x: tf.Tensor) -> None:
        """Has C's batch normalisation take note of images, without learning anything else."""
        edge, crop_size = self._settings.margin // 2, self._settings.crop_size
        self.classifier(x[:, edge : edge + crop_size, edge : edge + crop_size], training=True)

    def inpaint(self, x: tf.Tensor, draws: Draws, training: bool = True) -> Patches | None:
        """Eqs. 2 and 3: cuts a patch out of every image, and has F fill it in. F sees both kinds in one batch."""
        if self.inpainter is None:
            return None
        places = self.lci.place(draws["patch"], x.shape[1])
        e = self.lci.crop(x, places)
        erased = self.lci.erase_centre(e, _normal(draws["noise"], e.shape[1:]))
        given = [e, erased] if self._settings.patch_autoencoding else [erased]
        made = self.inpainter(tf.concat(given, axis=0), training=training and self.discriminator is not None)
        *autoencoded, inpainted = tf.split(made, len(given))
        return Patches(e, erased, made, autoencoded[0] if autoencoded else None, inpainted, places)

    def transformed(self, x: tf.Tensor, patches: Patches | None, draws: Draws) -> list[tf.Tensor]:
        """T_0 … T_K of the images, one stack [n, crop, crop, 3] for each, in the order of `labels`."""
        identity = x
        if patches is not None and patches.autoencoded is not None:
            # Every second image has an autoencoded patch, so that traces of F do not mean inpainting.
            pasted = self.lci.paste(x, patches.autoencoded, patches.places)
            identity = tf.where(carries_autoencoded_patch(x)[:, tf.newaxis, tf.newaxis, tf.newaxis], pasted, x)
        stacks = [identity]
        for i, transform in enumerate(self.transforms):
            if transform is self.lci:
                stacks.append(self.lci.paste(x, patches.inpainted, patches.places))  # eq. 4
            else:
                stacks += transform(identity if transform.of_identity else x, draws[f"transform_{i}"])
        # All are cut out of something larger, so that what a warp invents at the edges is not seen.
        crop_size, tilt = self._settings.crop_size, self._settings.tilt
        return [cut(stack, draws["cut"][:, label], crop_size, tilt) for label, stack in enumerate(stacks)]

    def _stacked(self, stacks):
        labels = tf.repeat(tf.range(len(stacks)), tf.shape(stacks[0])[0])
        return tf.concat(stacks, axis=0), labels

    def _accuracies(self, logits, labels):
        """Of every class; of class 0 apart for images with and without an autoencoded patch."""
        right = tf.cast(tf.argmax(logits, axis=1, output_type=tf.int32) == labels, tf.float32)
        identity, *others = tf.split(right, len(self.labels))
        of = dict(zip(self.labels[1:], others, strict=True))
        if self._autoencodes():
            carries = carries_autoencoded_patch(identity)
            of["identity_untouched"] = tf.boolean_mask(identity, ~carries)
            of["identity_autoencoded"] = tf.boolean_mask(identity, carries)
        else:
            of["identity"] = identity
        return {f"accuracy/{name}": tf.reduce_mean(values) for name, values in of.items()}

    def _autoencodes(self):
        return self.inpainter is not None and self._settings.patch_autoencoding

    def _metric_names(self):
        names = []
        if self.classifier:
            identity = ["identity_untouched", "identity_autoencoded"] if self._autoencodes() else ["identity"]
            names += ["loss/classifier", *(f"accuracy/{name}" for name in [*identity, *self.labels[1:]])]
            names.append("gradient_norm/classifier")
        if self.discriminator:
            names += ["loss/discriminator", "loss/inpainter_gan", "loss/border"]
            names += ["loss/autoencoding"] * self._autoencodes()
            names += ["gradient_norm/discriminator", "gradient_norm/inpainter"]
        return names

    @property
    def players(self) -> list[str]:
        """Which of C, F and D are trained."""
        return ["classifier"] * bool(self.classifier) + ["discriminator", "inpainter"] * bool(self.discriminator)

    def optimizer_of(self, player: str) -> tf.keras.optimizers.Optimizer:
        return getattr(self, f"{player}_optimizer")

    @property
    def metrics(self):
        return []  # `means` are reset by whoever logs them, not by Keras when `fit` begins: a resumed run goes on

    def _loss_scale(self):
        """One for all players, since C's backward pass serves two. 1 unless it is float16 that computes."""
        optimizer = self.optimizer_of(self.players[0])
        return getattr(optimizer, "loss_scale", 1.0)

    def _summed(self, gradients):
        """Over the replicas, and without the loss scale."""
        gradients = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        scale = self._loss_scale()
        if not tf.is_tensor(scale):
            return gradients
        # If one player's overflow, all are made to: so all optimisers leave out the same steps, and keep one scale.
        finite = tf.math.is_finite(sum(tf.reduce_sum(g) for values in gradients.values() for g in values))
        factor = tf.where(finite, 1.0 / scale, float("nan"))
        return {player: [g * factor for g in values] for player, values in gradients.items()}


def carries_autoencoded_patch(rows: tf.Tensor) -> tf.Tensor:
    """bool [n]: every second row. A replica's part is even, so that this is every second of the global batch."""
    return tf.range(tf.shape(rows)[0]) % 2 == 0


def _pairs(patches):
    """[n, p, p, 3] to [n/2, p, p, 6]: D judges neighbours together (PacGAN), which makes for diversity."""
    return tf.concat([patches[0::2], patches[1::2]], axis=3)


def _normal(seeds, shape):
    """N(0, 1) of this shape for every seed: drawn here, on the accelerator, but the same however rows are shared."""
    return tf.map_fn(lambda seed: tf.random.stateless_normal(shape, seed), seeds, fn_output_signature=tf.float32)
