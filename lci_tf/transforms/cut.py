"""The last step for every class: what C sees is cut out of the crop and its margin, half of the time tilted.

The authors' way to hide how a class was made: the margin takes away most of what a warp invents at the edges, and the
tilt resamples images of every class, so that the softness of a resampled image does not mean "warp".
"""

import math

import tensorflow as tf

from lci_tf.transforms import patches
from lci_tf.transforms.lookup import lookup_at


def cut(images: tf.Tensor, draws: tf.Tensor, crop_size: int, tilt: float) -> tf.Tensor:
    """Cuts a square out of each image.

    An image that is not tilted is cut at a whole-numbered place, all of them equally likely, and keeps its pixels as
    they are. A tilted one is turned about the cut's centre by an angle uniform in ±tilt half turns; the centre is
    uniform among those that keep the turned square inside the image. Where there is none it is the image's, and edges
    are clamped.

    Args:
      images: [n, size, size, c].
      draws: float32 [n, 4] in [0, 1): vertical place, horizontal place, whether tilted (below ½), angle.
      crop_size: side of the square.
      tilt: in half turns, at most ½.

    Returns:
      [n, crop_size, crop_size, c].
    """
    size = images.shape[1]
    if tilt == 0:
        if size == crop_size:
            return images
        return patches.crop(images, patches.random_places(draws[:, :2], size, crop_size), crop_size)
    tilted = draws[:, 2] < 0.5
    angle = tf.where(tilted, (2 * draws[:, 3] - 1) * tilt * math.pi, 0.0)
    cos, sin = tf.cos(angle), tf.sin(angle)
    slack = tf.maximum(size - crop_size * (cos + tf.abs(sin)), 0.0)
    whole_place = tf.cast(patches.random_places(draws[:, :2], size, crop_size), tf.float32)
    from_middle = tf.where(
        tilted[:, tf.newaxis],
        (draws[:, :2] - 0.5) * slack[:, tf.newaxis],
        whole_place - (size - crop_size) / 2,
    )
    centre = from_middle + (size - 1) / 2
    # Without a tilt all of this is in multiples of ½, which float32 adds exactly: the points are whole-numbered.
    from_centre = tf.range(crop_size, dtype=tf.float32) - (crop_size - 1) / 2
    down, right = from_centre[:, tf.newaxis], from_centre
    cos, sin, row, column = (v[:, tf.newaxis, tf.newaxis] for v in (cos, sin, centre[:, 0], centre[:, 1]))
    return lookup_at(images, row + cos * down - sin * right, column + sin * down + cos * right)
