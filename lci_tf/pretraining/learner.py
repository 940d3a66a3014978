"""The paper's method: the losses and gradients of C, F and D for one step, with the equations in their order."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from lci_tf.config.settings import Settings
from lci_tf.data.draws import normal
from lci_tf.errors import InputError
from lci_tf.pretraining import losses, montages
from lci_tf.pretraining.players import Draws, Gradients, Players, Results, pairs
from lci_tf.transforms import AnyTransformation, Movement, labels_of
from lci_tf.transforms.cut import cut, points
from lci_tf.transforms.lookup import lookup_at


class Patches(NamedTuple):
    """Inputs and outputs of F. All images are [n, p, p, 3] in [-1, 1]; noise may exceed that.

    Attributes:
      original: e, cropped from the images at `places`.
      erased: e with noise in its centre.
      made: all outputs of F as one tensor: F(e), if patches are autoencoded, followed by r.
      autoencoded: F(e), or None.
      inpainted: r = F(erased).
      places: int64 [n, 2], upper left corners of the patches in the images.
    """

    original: tf.Tensor
    erased: tf.Tensor
    made: tf.Tensor
    autoencoded: tf.Tensor | None
    inpainted: tf.Tensor
    places: tf.Tensor


class Examples(NamedTuple):
    """What a learner makes of some images, for pictures: arrays [n, side, side, 3] in [-1, 1].

    Attributes:
      images: the images with their margin.
      transformed: label -> the images that C sees; empty without C.
      patches: inputs and outputs of F; None without F.
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
      - without C, F and D are trained alone, for use as a frozen F later.
    """

    def __init__(
        self,
        classifier: tf.keras.Model | None,
        inpainter: tf.keras.Model | None,
        discriminator: tf.keras.Model | None,
        transforms: Sequence[AnyTransformation],
        settings: Settings,
    ):
        super().__init__(classifier, inpainter, discriminator, transforms, settings)
        self.labels = labels_of(transforms)
        self.lci: Any = next((t for t in transforms if t.is_inpainted), None)

    def gradients(self, x: tf.Tensor, draws: Draws) -> tuple[Gradients, Results]:
        """The gradients of each player's loss over the global batch, by player, and this replica's metrics."""
        settings = self._settings
        results: Results = {}
        with tf.GradientTape(persistent=True) as tape:
            patches = self.inpaint(x, draws)  # eqs. 2 and 3
            if self.classifier:
                images, labels = self._stacked(self.transformed(x, patches, draws))  # one of them by eq. 4
                logits = self.classifier(images, training=True)["logits"]
                loss_ssl = losses.classification(logits, labels)  # eq. 1
                results |= {"loss/classifier": loss_ssl, **self._accuracies(logits, labels)}
            if self.discriminator:
                judged = tf.concat([pairs(patches.original), pairs(patches.inpainted)], axis=0)
                real, fake = tf.split(self.discriminator(judged, training=True), 2)
                loss_d = losses.discriminator_hinge(real, fake)
                gan = losses.inpainter_hinge(fake)
                border = losses.border(patches.inpainted, patches.original, self.lci.mask)
                loss_f = gan + settings.border_weight * border  # eq. 5 without -L_SSL, which is added below
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
            # One backward pass through C serves both players: F's adversarial gradient is C's at F's patches, negated.
            found = tape.gradient(loss_ssl, at, output_gradients=share)
            gradients["classifier"] = found["classifier"]
            at_patches -= found.get("patches", 0.0)
        if self.discriminator:
            gradients["discriminator"] = tape.gradient(loss_d, self.discriminator.trainable_variables, share)
            at_patches += tape.gradient(loss_f, patches.made, share)
            gradients["inpainter"] = tape.gradient(patches.made, self.inpainter.trainable_variables, at_patches)
        return self._summed(gradients), results

    def calibrate_batch_norm(self, x: tf.Tensor) -> None:
        """Updates C's batch-norm statistics from images with their margin, and nothing else."""
        edge, crop_size = self._settings.margin // 2, self._settings.crop_size
        self.classifier(x[:, edge : edge + crop_size, edge : edge + crop_size], training=True)

    def inpaint(self, x: tf.Tensor, draws: Draws, training: bool = True) -> Patches | None:
        """Eqs. 2 and 3: crops a patch from each image; F inpaints and autoencodes them in one batch. None without F."""
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
        """T_0 … T_K of the images, a stack [n, crop, crop, 3] for each, in the order of `labels`.

        All are cut from larger images, so that what a warp invents at the edges is not seen, and tilted, so that the
        softness of interpolated images does not mean "warp".
        """
        resample, identity = self._settings.resample, x
        if patches is not None and patches.autoencoded is not None:
            # Every second image has an autoencoded patch, so that traces of F do not mean "inpainted".
            pasted = self.lci.paste(x, patches.autoencoded, patches.places)
            identity = tf.where(carries_autoencoded_patch(x)[:, tf.newaxis, tf.newaxis, tf.newaxis], pasted, x)
        stacks = [self._cut(identity, draws, 0)]
        for i, transform in enumerate(self.transforms):
            label, drawn = len(stacks), draws.get(f"transform_{i}")
            if transform is self.lci:
                stacks.append(self._cut(self.lci.paste(x, patches.inpainted, patches.places), draws, label))  # eq. 4
            elif transform.of_identity and resample != "each":
                stacks += _made(transform, transform(stacks[0], drawn))
            elif isinstance(transform, Movement) and resample == "once":
                size, crop_size, tilt = x.shape[1], self._settings.crop_size, self._settings.tilt
                rows, columns = points(draws["cut"][:, label], size, crop_size, tilt, self._tilted(draws, label))
                stacks += [lookup_at(x, *at) for at in _made(transform, transform.move(rows, columns, drawn))]
            else:
                made = _made(transform, transform(identity if transform.of_identity else x, drawn))
                stacks += [self._cut(images, draws, label + j) for j, images in enumerate(made)]
        return stacks

    def _cut(self, images, draws, label):
        settings = self._settings
        return cut(images, draws["cut"][:, label], settings.crop_size, settings.tilt, self._tilted(draws, label))

    def _tilted(self, draws, label):
        """Which images of a class are tilted, bool [n]; None to leave it to `cut`, which tilts half of them."""
        rows = draws["cut"][:, label]
        if self._settings.resample == "once":
            return rows[:, 2] < 1  # all, as draws are below 1, except those of `examples.centred`
        if self._settings.resample == "authors" and label == 0 and self._autoencodes():
            return ~carries_autoencoded_patch(rows)
        return None

    def _stacked(self, stacks):
        labels = tf.repeat(tf.range(len(stacks), dtype=tf.int64), tf.shape(stacks[0])[0])  # for GPUs, see `lookup_at`
        return tf.concat(stacks, axis=0), labels

    def _accuracies(self, logits, labels):
        """The accuracy on every class; on class 0 separately for images with and without an autoencoded patch."""
        right = tf.cast(tf.argmax(logits, axis=1) == labels, tf.float32)
        identity, *others = tf.split(right, len(self.labels))
        by_name = dict(zip(self.labels[1:], others, strict=True))
        if self._autoencodes():
            by_name["identity_autoencoded"], by_name["identity_untouched"] = identity[0::2], identity[1::2]
        else:
            by_name["identity"] = identity
        return {f"accuracy/{name}": tf.reduce_mean(values) for name, values in by_name.items()}

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
        """Pictures of the transformations, F's patches and C's first filters, as far as there are C and F."""
        made, shown = {}, self.examples(x, draws)
        if self.classifier:
            made["transformations"] = montages.transformations(shown.transformed)
            made["conv1"] = montages.filters(self.classifier.get_layer("features").weights[0].numpy())
        if shown.patches is not None and shown.inpainted is not None:
            original, erased, _, autoencoded, inpainted, places = shown.patches
            made["patches"] = montages.patches(original, erased, inpainted, autoencoded)
            made["lci"] = montages.lci_examples(shown.images, shown.inpainted, places, self.lci.patch_size)
        return made


def _made(transform, made):
    """Checks that a transformation has made a batch of images for each of its labels, and returns them."""
    if len(made) != len(transform.labels):
        raise InputError(
            f"--transforms: {type(transform).__name__} made {len(made)} batches of images for its "
            f"{len(transform.labels)} labels ({', '.join(transform.labels)}); expected one for each"
        )
    return made


def carries_autoencoded_patch(rows: tf.Tensor) -> tf.Tensor:
    """Which rows have an autoencoded patch, bool [n]: every second one, also in the global batch, as parts are even."""
    return tf.range(tf.shape(rows)[0]) % 2 == 0
