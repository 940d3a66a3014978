"""The one preprocessing for training, evaluation and export: decode, shrink, crop, scale to [-1, 1].

A crop is named by its *place*: (0, 0) is the upper left corner, (1, 1) the lower right, (½, ½) the centre. A random
crop is a random place.
"""

import tensorflow as tf

from lci_tf import decoding

CENTRE = (0.5, 0.5)
CORNERS = ((0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0))

# Test-time views as (place, mirrored). The paper says "multi-crop"; its authors take these.
VIEWS = {
    "centre": ((CENTRE, False),),
    "five": tuple((place, False) for place in (CENTRE, *CORNERS)),
    "ten": tuple((place, mirrored) for mirrored in (False, True) for place in (CENTRE, *CORNERS)),
}


def preprocess(image: tf.Tensor, place: tf.Tensor, crop_size: int, resize: float) -> tf.Tensor:
    """One image to a square crop.

    Args:
      image: scalar string (an encoded image) or uint8 [height, width, 3].
      place: float [2], where the crop lies (vertical, horizontal), each in [0, 1].
      crop_size: side of the crop in pixels.
      resize: the short side is brought down to this before the crop is cut, at least `crop_size`. Smaller images
        are taken as they are, and enlarged only where they are smaller than the crop.

    Returns:
      float32 [crop_size, crop_size, 3] in [-1, 1].
    """
    return scale(crop(pixels(image, resize), place, crop_size, resize))


def pixels(image: tf.Tensor, resize: float | None = None) -> tf.Tensor:
    """uint8 pixels of an encoded image; pixels are passed through."""
    return decoding.decode(image, short_side=resize) if image.dtype == tf.string else image


def scale(image: tf.Tensor) -> tf.Tensor:
    """Grey levels 0…255 to [-1, 1]."""
    return tf.cast(image, tf.float32) / 127.5 - 1.0


def unscale(image: tf.Tensor) -> tf.Tensor:
    """[-1, 1] to uint8 grey levels."""
    return tf.cast(tf.clip_by_value(tf.round((image + 1.0) * 127.5), 0.0, 255.0), tf.uint8)


def is_smaller_than_crop(image: tf.Tensor, crop_size: int) -> tf.Tensor:
    return tf.reduce_min(tf.shape(image)[:2]) < crop_size


def crop(image: tf.Tensor, place: tf.Tensor, crop_size: int, resize: float) -> tf.Tensor:
    """uint8 [height, width, 3] to float32 [crop_size, crop_size, 3] in 0…255; see `preprocess`."""
    shape = tf.shape(image)[:2]
    short = tf.cast(tf.reduce_min(shape), tf.float32)
    factor = tf.maximum(tf.minimum(1.0, resize / short), crop_size / short)
    cropped = tf.cond(
        tf.equal(factor, 1.0),
        lambda: _cut(image, shape, place, crop_size),
        lambda: _shrink_and_cut(image, shape, place, crop_size, factor),
    )
    return tf.ensure_shape(cropped, [crop_size, crop_size, 3])


def _cut(image, shape, place, crop_size):
    spare = shape - crop_size
    # Every offset 0…spare is equally likely for a uniform place, and (½, ½) is the middle.
    top, left = tf.unstack(tf.minimum(tf.cast(place * tf.cast(spare + 1, tf.float32), tf.int32), spare))
    return tf.cast(image[top : top + crop_size, left : left + crop_size], tf.float32)


def _shrink_and_cut(image, shape, place, crop_size, factor):
    """Antialiased resizing of just those pixels that the crop shows.

    The offset need not be a whole number, so nothing is rounded towards one side: turning the image by 90° and
    taking the centre crop commute.
    """
    offset = place * (tf.cast(shape, tf.float32) * factor - crop_size)
    return tf.raw_ops.ScaleAndTranslate(
        images=image[tf.newaxis],
        size=[crop_size, crop_size],
        scale=tf.stack([factor, factor]),
        translation=-offset,
        kernel_type="triangle",
        antialias=True,
    )[0]
