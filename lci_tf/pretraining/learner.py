"""C, F and D, and the step that trains all three."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from lci_tf.config.presets import Settings
from lci_tf.data.draws import normal
from lci_tf.errors import InputError
from lci_tf.pretraining import losses, montages
from lci_tf.pretraining.players import Draws, Gradients, Players, Results, pairs
from lci_tf.transforms import LimitedContextInpainting, Transformation, labels_of
from lci_tf.transforms.cut import cut


class Patches(NamedTuple):
    """What F was given and what it made of it. All [n, p, p, 3], in [-1, 1].

    Attributes:
      original: e, cut out of the images at `places`.
      erased: e with noise in its centre.
      made: what F made, as one tensor: F(e), if patches are autoencoded at all, and then r.
      autoencoded: F(e), or None.
      inpainted: r = F(erased).
      places: int64 [n, 2].
    """

    original: tf.Tensor
    erased: tf.Tensor
    made: tf.Tensor
    autoencoded: tf.Tensor | None
    inpainted: tf.Tensor
    places: tf.Tensor


class Examples(NamedTuple):
    """What a learner makes of some images, to be looked at: arrays, [n, side, side, 3] in [-1, 1].

    Attributes:
      images: with their margin.
      transformed: by label, what C sees; empty without C.
      patches: what F was given and made; None without F.
      inpainted: the images with F's patches; None without F.
    """

    images: np.ndarray
    transformed: dict[str, np.ndarray]
    patches: Patches | None
    inpainted: np.ndarray | None


class Pretraining(Players):
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
        super().__init__(classifier, inpainter, discriminator, transforms, settings)
        self.labels = labels_of(transforms)
        self.lci = next((t for t in transforms if isinstance(t, LimitedContextInpainting)), None)

    def gradients(self, x: tf.Tensor, draws: Draws) -> tuple[Gradients, Results]:
        """The gradients of each player's loss over the global batch, by player, and what to report of this replica."""
        settings, results = self._settings, {}
        with tf.GradientTape(persistent=True) as tape:
            patches = self.inpaint(x, draws)  # eqs. 2 and 3
            if self.classifier:
                images, labels = self._stacked(self.transformed(x, patches, draws))  # eq. 4 is one of them
                logits = self.classifier(images, training=True)["logits"]
                loss_ssl = losses.classification(logits, labels)  # eq. 1
                results |= {"loss/classifier": loss_ssl, **self._accuracies(logits, labels)}
            if self.discriminator:
                judged = tf.concat([pairs(patches.original), pairs(patches.inpainted)], axis=0)
                real, fake = tf.split(self.discriminator(judged, training=True), 2)
                loss_d = losses.discriminator_hinge(real, fake)
                gan = losses.inpainter_hinge(fake)
                border = losses.border(patches.inpainted, patches.original, self.lci.mask)
                loss_f = gan + settings.border_weight * border  # eq. 5, but for -L_SSL, which comes below
                results |= {"loss/discriminator": loss_d, "loss/inpainter_gan": gan, "loss/border": border}
                if patches.autoencoded is not None:
                    autoencoding = losses.autoencoding(patches.autoencoded, patches.original)
                    loss_f += settings.autoencoding_weight * autoencoding  # L_inp,AE
                    results["loss/autoencoding"] = autoencoding

        share, gradients, at_patches = self._share(), {}, 0.0
        if self.classifier:
            at = {"classifier": self.classifier.trainable_variables}
            if self.discriminator and settings.adversarial_classifier:
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
        erased = self.lci.erase_centre(e, normal(draws["noise"], self._settings.batch_size, e.shape[1:]))
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
                made = transform(identity if transform.of_identity else x, draws[f"transform_{i}"])
                if len(made) != len(transform.labels):
                    raise InputError(
                        f"--transforms: {type(transform).__name__} made {len(made)} batches of images for its "
                        f"{len(transform.labels)} labels ({', '.join(transform.labels)}); expected a list of as many"
                    )
                stacks += made
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
            of["identity_autoencoded"], of["identity_untouched"] = identity[0::2], identity[1::2]
        else:
            of["identity"] = identity
        return {f"accuracy/{name}": tf.reduce_mean(values) for name, values in of.items()}

    def _autoencodes(self):
        return self.inpainter is not None and self._settings.patch_autoencoding

    def reported(self) -> list[str]:
        names = []
        if self.classifier:
            identity = ["identity_untouched", "identity_autoencoded"] if self._autoencodes() else ["identity"]
            names += ["loss/classifier", *(f"accuracy/{name}" for name in [*identity, *self.labels[1:]])]
        if self.discriminator:
            names += ["loss/discriminator", "loss/inpainter_gan", "loss/border"]
            if self._autoencodes():
                names.append("loss/autoencoding")
        return names

    def examples(self, x: tf.Tensor, draws: Draws) -> Examples:
        patches = self.inpaint(x, draws, training=False)
        transformed, inpainted = {}, None
        if self.classifier:
            stacks = [stack.numpy() for stack in self.transformed(x, patches, draws)]
            transformed = dict(zip(self.labels, stacks, strict=True))
        if patches is not None:
            inpainted = self.lci.paste(x, patches.inpainted, patches.places).numpy()
            patches = Patches(*(part if part is None else part.numpy() for part in patches))
        return Examples(x.numpy(), transformed, patches, inpainted)

    def montages(self, x: tf.Tensor, draws: Draws) -> dict[str, np.ndarray]:
        """The transformations side by side, F's patches, C's first filters; as far as there are such."""
        made, shown = {}, self.examples(x, draws)
        if self.classifier:
            made["transformations"] = montages.transformations(shown.transformed)
            made["conv1"] = montages.filters(self.classifier.get_layer("features").weights[0].numpy())
        if shown.patches is not None:
            original, erased, _, autoencoded, inpainted, places = shown.patches
            made["patches"] = montages.patches(original, erased, inpainted, autoencoded)
            made["lci"] = montages.lci_examples(shown.images, shown.inpainted, places, self.lci.patch_size)
        return made


def carries_autoencoded_patch(rows: tf.Tensor) -> tf.Tensor:
    """bool [n]: every second row. A replica's part is even, so that this is every second of the global batch."""
    return tf.range(tf.shape(rows)[0]) % 2 == 0
