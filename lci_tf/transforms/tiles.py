"""Permuted tiles with inpainted seams, the test of Figure 1: everything but the network that inpaints the seams.

Permuting the tiles of an image preserves local statistics and destroys global ones. The seams would reveal it, so a
band of pixels along each is erased and inpainted.
"""

import numpy as np
import tensorflow as tf

from lci_tf.config.settings import Settings


class Tiles:
    """Permutes the tiles of square images, and erases and fills the bands along the seams between tiles.

    Not a `Transformation`, because its pixels come from F:

        permuted = tiles.permute(images, tiles.permutation(draws))
        made = F(tiles.erase_seams(permuted, noise))
        filled = tiles.fill_seams(permuted, made)

    Pixels are moved, not computed, so all of this is bit-exact.

    Args:
      size: side of the images, in pixels.
      tiles: number of tiles along each side, a divisor of `size`.
      seam: width of the bands in pixels, half of it on each side of a seam.
      noise_scale: standard deviation of the noise in the bands.
    """

    labels = ()  # not a class for C
    is_inpainted = True
    drawn_as = None

    def __init__(self, size: int, tiles: int, seam: int, noise_scale: float = 1.0):
        if size % tiles or seam % 2:
            raise ValueError(f"{size} pixels are not {tiles} tiles, or a band of {seam} has no two halves")
        self.size, self.tiles, self.seam, self.noise_scale = size, tiles, seam, noise_scale
        self.draws = (tiles**2,)
        seams = size // tiles * np.arange(1, tiles)[:, np.newaxis]
        pixels = np.arange(size)
        band = np.any((pixels >= seams - seam // 2) & (pixels < seams + seam // 2), axis=0)
        self.mask = (band[:, np.newaxis] | band)[..., np.newaxis].astype(np.float32)
        """float32 [size, size, 1]: 1 in the bands, 0 elsewhere."""

    @classmethod
    def from_settings(cls, settings: Settings, size: int) -> "Tiles":
        return cls(size, settings.tiles, settings.seam, settings.noise_scale)

    def permutation(self, draws: tf.Tensor) -> tf.Tensor:
        """From uniform draws [n, tiles²] to permutations, int64 [n, tiles²]: which tile moves to each place.

        Never the identity: if all tiles would stay, they all move on by one place.
        """
        order = tf.cast(tf.argsort(draws, axis=1), tf.int64)  # for GPUs, see `lookup_at`
        all_stay = tf.reduce_all(order == tf.range(self.tiles**2, dtype=tf.int64), axis=1, keepdims=True)
        return tf.where(all_stay, tf.roll(order, 1, axis=1), order)

    def permute(self, images: tf.Tensor, permutation: tf.Tensor) -> tf.Tensor:
        """Permutes the tiles of images [n, size, size, c]."""
        t, side, channels = self.tiles, self.size // self.tiles, images.shape[3]
        cut = tf.transpose(tf.reshape(images, [-1, t, side, t, side, channels]), [0, 1, 3, 2, 4, 5])
        moved = tf.gather(tf.reshape(cut, [-1, t * t, side, side, channels]), permutation, batch_dims=1)
        joined = tf.transpose(tf.reshape(moved, [-1, t, t, side, side, channels]), [0, 1, 3, 2, 4, 5])
        return tf.reshape(joined, [-1, self.size, self.size, channels])

    def erase_seams(self, images: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
        """The input of F: images with noise in the bands. `noise` is drawn from N(0, 1), in the shape of the images."""
        return tf.where(self.mask > 0, self.noise_scale * noise, images)

    def fill_seams(self, images: tf.Tensor, inpainted: tf.Tensor) -> tf.Tensor:
        """Images with the bands, and only these, replaced by the output of F."""
        return tf.where(self.mask > 0, inpainted, images)
