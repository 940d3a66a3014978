"""F and D alone, on the seams between the tiles of permuted images: the inpainter of the test of Figure 1."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from lci_tf.data.draws import normal
from lci_tf.pretraining import losses, montages
from lci_tf.pretraining.players import Draws, Gradients, Players, Results, pairs


class Seams(NamedTuple):
    """What F was given and what it made of it. All [n, s, s, 3].

    Attributes:
      images: with their tiles in place, or permuted.
      erased: the same with noise in the band along the seams.
      made: what F made of that.
      filled: the images with the band, and nothing else, of what F made.
    """

    images: tf.Tensor
    erased: tf.Tensor
    made: tf.Tensor
    filled: tf.Tensor


class SeamInpainting(Players):
    """Trains F to fill in the band along seams so that D takes permuted images for natural ones.

    D averages over what it sees of a few dozen pixels at a time, and so asks for natural seams and no more. F fills in
    images with their tiles in place too, so that filled bands by themselves do not tell whether tiles were permuted.
    """

    def gradients(self, x: tf.Tensor, draws: Draws) -> tuple[Gradients, Results]:
        (tiles,), weight = self.transforms, self._settings
        with tf.GradientTape(persistent=True) as tape:
            unpermuted, permuted = self.inpaint(x, draws)
            judged = tf.concat([pairs(x), pairs(unpermuted.filled), pairs(permuted.filled)], axis=0)
            real, *fake = tf.split(self.discriminator(judged, training=True), 3)
            fake = tf.concat(fake, axis=0)
            loss_d = losses.discriminator_hinge(real, fake)
            gan = losses.inpainter_hinge(fake)
            # What belongs between permuted tiles nobody knows: there, what lies beside the band is to come back, as in
            # eq. 5; but of images with their tiles in place, all of it.
            border = losses.border(permuted.made, permuted.images, tiles.mask)
            autoencoding = losses.autoencoding(unpermuted.made, x)
            loss_f = gan + weight.border_weight * border + weight.autoencoding_weight * autoencoding
        gradients = {
            "discriminator": tape.gradient(loss_d, self.discriminator.trainable_variables, self._share()),
            "inpainter": tape.gradient(loss_f, self.inpainter.trainable_variables, self._share()),
        }
        return self._summed(gradients), {
            "loss/discriminator": loss_d,
            "loss/inpainter_gan": gan,
            "loss/border": border,
            "loss/autoencoding": autoencoding,
        }

    def inpaint(self, x: tf.Tensor, draws: Draws, training: bool = True) -> tuple[Seams, Seams]:
        """Erases the bands of the images as they are and with their tiles permuted; F fills in both in one batch."""
        (tiles,) = self.transforms
        both = tf.concat([x, tiles.permute(x, tiles.permutation(draws["transform_0"]))], axis=0)
        noise = normal(draws["noise"], self._settings.batch_size, x.shape[1:])
        erased = tiles.erase_seams(both, tf.concat([noise, noise], axis=0))
        made = self.inpainter(erased, training=training)
        halves = (tf.split(images, 2) for images in (both, erased, made, tiles.fill_seams(both, made)))
        unpermuted, permuted = zip(*halves, strict=True)
        return Seams(*unpermuted), Seams(*permuted)

    def reported(self) -> list[str]:
        return ["loss/discriminator", "loss/inpainter_gan", "loss/border", "loss/autoencoding"]

    def montages(self, x: tf.Tensor, draws: Draws) -> dict[str, np.ndarray]:
        """Natural images; permuted and erased; then what F makes of these, and of the images with tiles in place."""
        unpermuted, permuted = self.inpaint(x, draws, training=False)
        columns = {
            "natural": x,
            "erased": permuted.erased,
            "permuted": permuted.filled,
            "unpermuted": unpermuted.filled,
        }
        return {"seams": montages.transformations({name: images.numpy() for name, images in columns.items()})}
