"""The last step for all classes: cuts what C sees out of the larger transformed image, and tilts it.

This is how the authors' code hides shortcuts. The margin that is cut away contains most of what a warp invents at the
edges. The tilt resamples images of all classes, so that the softness of a resampled image does not mean "warp".
"""

import math

import tensorflow as tf

from lci_tf.transforms import patches
from lci_tf.transforms.lookup import lookup_at

UNTILTED_CENTRE = (0.5, 0.5, 1.0, 0.5)  # draws of a cut from the middle that is not tilted; see `points`


def cut(images: tf.Tensor, draws: tf.Tensor, crop_size: int, tilt: float, tilted: tf.Tensor | None = None) -> tf.Tensor:
    """Cuts a square out of each image, tilted or not: what the image shows at `points`.

    Args:
      images: [n, size, size, c].
      draws, crop_size, tilt, tilted: see `points`.

    Returns:
      [n, crop_size, crop_size, c].
    """
    size = images.shape[1]
    if tilt > 0:
        return lookup_at(images, *points(draws, size, crop_size, tilt, tilted))
    if size == crop_size:
        return images
    return patches.crop(images, patches.random_places(draws[:, :2], size, crop_size), crop_size)


def points(
    draws: tf.Tensor, size: int, crop_size: int, tilt: float, tilted: tf.Tensor | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Where in each image the pixels of its cut are.

    Images that are not tilted are cut at integer positions, all equally likely, so their pixels are not resampled.
    Tilted ones are rotated about the centre of the cut by an angle uniform in ±tilt half turns; the centre is uniform
    among those that keep the rotated square inside the image. If there is none, it is the centre of the image, and
    points outside are clamped to the edge. With `tilt` 0, all positions are integers.

    Args:
      draws: float32 [n, 4] in [0, 1): vertical position, horizontal position, whether to tilt, angle.
      size: side of the images, in pixels.
      crop_size: side of the square, in pixels.
      tilt: largest angle, in half turns, at most ½.
      tilted: bool [n], which images to tilt; by default those whose third draw is below ½.

    Returns:
      rows and columns in pixels, float32 [n, crop_size, crop_size] each.
    """
    if tilted is None:
        tilted = draws[:, 2] < 0.5
    tilted &= tilt > 0
    angle = tf.where(tilted, (2 * draws[:, 3] - 1) * tilt * math.pi, 0.0)
    cos, sin = tf.cos(angle), tf.sin(angle)
    slack = tf.maximum(size - crop_size * (cos + tf.abs(sin)), 0.0)
    integer_place = tf.cast(patches.random_places(draws[:, :2], size, crop_size), tf.float32)
    from_middle = tf.where(
        tilted[:, tf.newaxis],
        (draws[:, :2] - 0.5) * slack[:, tf.newaxis],
        integer_place - (size - crop_size) / 2,
    )
    centre = from_middle + (size - 1) / 2
    # Without a tilt these are all multiples of ½, which float32 adds exactly, so the points are integers.
    from_centre = tf.range(crop_size, dtype=tf.float32) - (crop_size - 1) / 2
    down, right = from_centre[:, tf.newaxis], from_centre
    cos, sin, row, column = (v[:, tf.newaxis, tf.newaxis] for v in (cos, sin, centre[:, 0], centre[:, 1]))
    return row + cos * down - sin * right, column + sin * down + cos * right
