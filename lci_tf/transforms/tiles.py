"""Tiles in another order, and the bands along their seams: the test of Figure 1, but for the network that fills these.

What permuting the tiles of an image leaves as it was are local statistics; what it destroys are global ones. The seams
would give it away, so a band of pixels along each is erased, and filled in by an inpainter.
"""

import numpy as np
import tensorflow as tf

from lci_tf.config.presets import Settings


class Tiles:
    """Permutes the tiles of square images; erases the band along all seams between tiles, and fills it.

    Not a `Transformation`, because its pixels come from F:

        permuted = tiles.permute(images, tiles.permutation(draws))
        made = F(tiles.erase_seams(permuted, noise))
        filled = tiles.fill_seams(permuted, made)

    Pixels are moved, never computed, so that all of it is bit-exact.

    Args:
      size: side of an image.
      tiles: how many along each side; `size` is divisible by it.
      seam: width of the band in pixels, half of it on each side of the seam.
      noise_scale: standard deviation of the noise in the band.
    """

    labels = ()  # C is not asked about them

    def __init__(self, size: int, tiles: int, seam: int, noise_scale: float = 1.0):
        if size % tiles or seam % 2:
            raise ValueError(f"{size} pixels are not {tiles} tiles, or a band of {seam} has no two halves")
        self.size, self.tiles, self.seam, self.noise_scale = size, tiles, seam, noise_scale
        self.draws = (tiles**2,)
        seams = size // tiles * np.arange(1, tiles)[:, np.newaxis]
        pixels = np.arange(size)
        band = ((pixels >= seams - seam // 2) & (pixels < seams + seam // 2)).any(axis=0)
        self.mask = (band[:, np.newaxis] | band)[..., np.newaxis].astype(np.float32)
        """float32 [size, size, 1]: 1 in the band and 0 elsewhere."""

    @classmethod
    def from_settings(cls, settings: Settings, size: int) -> "Tiles":
        return cls(size, settings.tiles, settings.seam, settings.noise_scale)

    def permutation(self, draws: tf.Tensor) -> tf.Tensor:
        """Uniform draws [n, tiles²] to permutations, int32 [n, tiles²]: which tile comes to each place, row by row.

        Never the identity: tiles that would all stay go on by one place.
        """
        order = tf.argsort(draws, axis=1)
        all_stay = tf.reduce_all(order == tf.range(self.tiles**2), axis=1, keepdims=True)
        return tf.where(all_stay, tf.roll(order, 1, axis=1), order)

    def permute(self, images: tf.Tensor, permutation: tf.Tensor) -> tf.Tensor:
        """Images [n, size, size, c] with their tiles in the order of `permutation`."""
        t, side, channels = self.tiles, self.size // self.tiles, images.shape[3]
        cut = tf.transpose(tf.reshape(images, [-1, t, side, t, side, channels]), [0, 1, 3, 2, 4, 5])
        moved = tf.gather(tf.reshape(cut, [-1, t * t, side, side, channels]), permutation, batch_dims=1)
        joined = tf.transpose(tf.reshape(moved, [-1, t, t, side, side, channels]), [0, 1, 3, 2, 4, 5])
        return tf.reshape(joined, [-1, self.size, self.size, channels])

    def erase_seams(self, images: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
        """What F sees: images with noise in the band; noise is N(0, 1), like the images."""
        return tf.where(self.mask > 0, self.noise_scale * noise, images)

    def fill_seams(self, images: tf.Tensor, inpainted: tf.Tensor) -> tf.Tensor:
        """Images with the band, and nothing else, of what F made."""
        return tf.where(self.mask > 0, inpainted, images)
