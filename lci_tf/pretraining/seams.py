"""Trains the inpainter for the test of Figure 1: F and D, without C, on the seams between permuted tiles."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from lci_tf.data.draws import normal
from lci_tf.pretraining import losses, montages
from lci_tf.pretraining.players import Draws, Gradients, Players, Results, pairs


class Seams(NamedTuple):
    """Inputs and outputs of F. All are [n, s, s, 3] in [-1, 1]; noise may exceed that.

    Attributes:
      images: the images, with their tiles in place or permuted.
      erased: these with noise in the bands along the seams, the input of F.
      made: the output of F.
      filled: the images with the bands, and only these, replaced by the output of F.
    """

    images: tf.Tensor
    erased: tf.Tensor
    made: tf.Tensor
    filled: tf.Tensor


class SeamInpainting(Players):
    """Trains F to fill the bands along seams so that D takes permuted images for natural ones.

    D averages over windows of a few dozen pixels, so it only demands natural seams. F also fills images with their
    tiles in place, so that filled bands alone do not reveal whether the tiles were permuted.
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
            # There is no ground truth between permuted tiles: there, F must only reproduce what is outside the bands,
            # as in eq. 5; in images with their tiles in place, everything.
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
        """Erases the bands of images with their tiles in place and permuted, and fills both with F in one batch."""
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
        """Natural images; permuted images with erased bands; these filled by F; filled images with tiles in place."""
        unpermuted, permuted = self.inpaint(x, draws, training=False)
        columns = {
            "natural": x,
            "erased": permuted.erased,
            "permuted": permuted.filled,
            "unpermuted": unpermuted.filled,
        }
        return {"seams": montages.transformations({name: images.numpy() for name, images in columns.items()})}
