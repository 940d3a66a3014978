"""The one preprocessing for training, evaluation and export: decode, shrink, crop, mirror, scale to [-1, 1].

A *view* of an image is three numbers: the vertical and the horizontal place of the crop, where 0 is at the upper or
left edge, 1 at the lower or right edge and ½ in the middle; and whether it is mirrored, from ½ on. So three uniform
draws make a random view.
"""

import tensorflow as tf

from lci_tf.imaging import decoding

_PLACES = ((0.5, 0.5), (0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0))

# Test-time views. The paper says "multi-crop"; its authors take ten.
VIEWS = {
    "centre": ((0.5, 0.5, 0.0),),
    "five": tuple((*place, 0.0) for place in _PLACES),
    "ten": tuple((*place, mirrored) for mirrored in (0.0, 1.0) for place in _PLACES),
}


def preprocess(image: tf.Tensor, views: tf.Tensor, crop_size: int, resize: float) -> tf.Tensor:
    """One image to square crops.

    Args:
      image: scalar string (an encoded image) or uint8 [height, width, 3].
      views: float [n, 3], see above.
      crop_size: side of a crop in pixels.
      resize: the short side is brought down to this before a crop is cut, at least `crop_size`. Smaller images
        are taken as they are, and enlarged only where they are smaller than the crop.

    Returns:
      float32 [n, crop_size, crop_size, 3] in [-1, 1].
    """
    return scale(crop(pixels(image, resize), views, crop_size, resize))


def pixels(image: tf.Tensor, resize: float | None = None) -> tf.Tensor:
    """uint8 pixels of an encoded image; pixels are passed through."""
    return decoding.decode(image, short_side=resize) if image.dtype == tf.string else image


def scale(image: tf.Tensor) -> tf.Tensor:
    """Grey levels 0…255 to [-1, 1]."""
    # Not divided: compiled code would multiply by the inverse, and a served model differ in the last digit.
    return tf.cast(image, tf.float32) * (1 / 127.5) - 1.0


def unscale(image: tf.Tensor) -> tf.Tensor:
    """[-1, 1] to uint8 grey levels."""
    return tf.cast(tf.clip_by_value(tf.round((image + 1.0) * 127.5), 0.0, 255.0), tf.uint8)


def is_smaller_than_crop(image: tf.Tensor, crop_size: int) -> tf.Tensor:
    return tf.reduce_min(tf.shape(image)[:2]) < crop_size


def crop(image: tf.Tensor, views: tf.Tensor, crop_size: int, resize: float) -> tf.Tensor:
    """uint8 [height, width, 3] to uint8 [n, crop_size, crop_size, 3]; see `preprocess`."""
    short = tf.cast(tf.reduce_min(tf.shape(image)[:2]), tf.float32)
    factor = tf.maximum(tf.minimum(1.0, resize / short), crop_size / short)
    return tf.cond(
        tf.equal(factor, 1.0),
        lambda: tf.stack([_cut(image, view, crop_size) for view in tf.unstack(views)]),
        lambda: tf.stack([_shrink_and_cut(image, view, crop_size, factor) for view in tf.unstack(views)]),
    )


def crop_plain_jpeg(contents: tf.Tensor, views: tf.Tensor, crop_size: int, resize: float) -> tf.Tensor:
    """`crop` for the most frequent case: a JPEG without metadata that is neither shrunk nor enlarged.

    The same pixels without the branches, which cost several times as much as decoding a small image does. Anything
    else is an `InvalidArgumentError`.
    """
    image = decoding.decode_plain_jpeg(contents, largest=resize)  # one smaller than the crop fails to be cut
    return tf.stack([_cut(image, view, crop_size) for view in tf.unstack(views)])


def _cut(image, view, crop_size):
    size = [crop_size, crop_size, 3]
    spare = tf.shape(image) - size
    # Every offset 0…spare is equally likely for a uniform place, and ½ is the middle (of an odd number to spare, half a
    # pixel off: there is no other way to keep pixels as they are). Colours have none to spare.
    offset = tf.minimum(tf.cast(view * tf.cast(spare + 1, tf.float32), tf.int32), spare)
    return _mirror(tf.slice(image, offset, size), view)


def _shrink_and_cut(image, view, crop_size, factor):
    """Antialiased resizing of just those pixels that the crop shows.

    The offset need not be a whole number, so nothing is rounded towards one side: turning the image by 90° and
    taking the centre crop commute.
    """
    offset = view[:2] * (tf.cast(tf.shape(image)[:2], tf.float32) * factor - crop_size)
    resampled = tf.raw_ops.ScaleAndTranslate(
        images=image[tf.newaxis],
        size=[crop_size, crop_size],
        scale=tf.stack([factor, factor]),
        translation=-offset,
        kernel_type="triangle",
        antialias=True,
    )
    levels = tf.clip_by_value(tf.round(resampled[0]), 0.0, 255.0)
    return _mirror(tf.ensure_shape(tf.cast(levels, tf.uint8), [crop_size, crop_size, 3]), view)


def _mirror(image, view):
    # One comparison and one shift make [False, mirrored, False] of a view, whose places are below 2.
    return tf.raw_ops.Reverse(tensor=image, dims=tf.roll(view >= [2.0, 2.0, 0.5], shift=-1, axis=0))
