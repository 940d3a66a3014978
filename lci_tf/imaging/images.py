"""The preprocessing that training, evaluation and exports share: decode, shrink, crop, mirror, scale to [-1, 1].

A *view* of an image is three numbers from 0 to 1: the vertical and the horizontal position of the crop, where 0 is the
upper or left edge and 1 the lower or right edge; and a number that mirrors the crop if it is at least ½. So three
uniform draws make a random view.
"""

import tensorflow as tf

from lci_tf.imaging import decoding

_PLACES = ((0.5, 0.5), (0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0))

# Views for testing. The paper says "multi-crop"; the authors' code uses ten.
VIEWS = {
    "centre": ((0.5, 0.5, 0.0),),
    "five": tuple((*place, 0.0) for place in _PLACES),
    "ten": tuple((*place, mirrored) for mirrored in (0.0, 1.0) for place in _PLACES),
}


def preprocess(image: tf.Tensor, views: tf.Tensor, crop_size: int, resize: float) -> tf.Tensor:
    """Cuts square crops from one image.

    Args:
      image: scalar string (an encoded image) or uint8 [height, width, 3].
      views: float [n, 3], see above.
      crop_size: side of a crop in pixels.
      resize: length to which the short side is shrunk before cropping, in pixels, at least `crop_size`. Smaller
        images are used as they are, and enlarged only if they are smaller than the crop.

    Returns:
      float32 [n, crop_size, crop_size, 3] in [-1, 1].
    """
    return scale(crop(pixels(image, resize), views, crop_size, resize))


def pixels(image: tf.Tensor, resize: float | None = None, most: int = decoding.MAX_PIXELS) -> tf.Tensor:
    """Decodes an image, if it is encoded, to uint8 [height, width, 3]; see `decoding.decode`."""
    return decoding.decode(image, resize, most) if image.dtype == tf.string else image


def scale(image: tf.Tensor) -> tf.Tensor:
    """From 0…255 to float32 in [-1, 1]."""
    # Not a division: compiled code would turn it into this, and served models would differ in the last digit.
    return tf.cast(image, tf.float32) * (1 / 127.5) - 1.0


def unscale(image: tf.Tensor) -> tf.Tensor:
    """From [-1, 1] to uint8 in 0…255."""
    return tf.cast(tf.clip_by_value(tf.round((image + 1.0) * 127.5), 0.0, 255.0), tf.uint8)


def is_smaller_than_crop(image: tf.Tensor, crop_size: int) -> tf.Tensor:
    return tf.reduce_min(tf.shape(image)[:2]) < crop_size


def crop(image: tf.Tensor, views: tf.Tensor, crop_size: int, resize: float) -> tf.Tensor:
    """From uint8 [height, width, 3] to uint8 [n, crop_size, crop_size, 3]; see `preprocess`."""
    short = tf.cast(tf.reduce_min(tf.shape(image)[:2]), tf.float32)
    factor = tf.maximum(tf.minimum(1.0, resize / short), crop_size / short)
    return tf.cond(
        tf.equal(factor, 1.0),
        lambda: tf.stack([_cut(image, view, crop_size) for view in tf.unstack(views)]),
        lambda: tf.stack([_shrink_and_cut(image, view, crop_size, factor) for view in tf.unstack(views)]),
    )


def crop_plain_jpeg(contents: tf.Tensor, views: tf.Tensor, crop_size: int, resize: float) -> tf.Tensor:
    """`crop` for the most common case, a JPEG without metadata that needs no resizing; else `InvalidArgumentError`.

    It gives the same pixels without the branches, which take several times as long as decoding a small image.
    """
    image = decoding.decode_plain_jpeg(contents, largest=resize)  # cutting fails if it is smaller than the crop
    return tf.stack([_cut(image, view, crop_size) for view in tf.unstack(views)])


def crop_at_scale(
    image: tf.Tensor, views: tf.Tensor, crop_size: int, scales: tuple[float, float], short_side: float | None = None
) -> tf.Tensor:
    """uint8 [height, width, 3] to uint8 [n, crop_size, crop_size, 3]: parts of different size, shown equally large.

    Args:
      views: float [n, 4]; the fourth number is where the scale is between those two: 0 at the first, 1 at the second.
      scales: by which the image is enlarged before a crop is cut; if it is then smaller than the crop, by so much
        more that its short side fits.
      short_side: to which the image is brought before it is scaled; None: it is taken as it is.
    """
    short = tf.cast(tf.reduce_min(tf.shape(image)[:2]), tf.float32)
    whole = short_side / short if short_side else 1.0

    def at_scale(view):
        factor = (scales[0] + (scales[1] - scales[0]) * view[3]) * whole
        return _shrink_and_cut(image, view[:3], crop_size, tf.maximum(factor, crop_size / short))

    return tf.stack([at_scale(view) for view in tf.unstack(views)])


def _cut(image, view, crop_size):
    size = [crop_size, crop_size, 3]
    spare = tf.shape(image) - size
    # For a uniform position every offset 0…spare is equally likely, and ½ is the middle (if `spare` is odd, off by half
    # a pixel, as pixels are not resampled). The channels have none to spare.
    offset = tf.minimum(tf.cast(view * tf.cast(spare + 1, tf.float32), tf.int32), spare)
    return _mirror(tf.slice(image, offset, size), view)


def _shrink_and_cut(image, view, crop_size, factor):
    """Resizes, with antialiasing, only the pixels that the crop shows.

    The offset need not be a whole number, so nothing is rounded to one side: cropping the centre and rotating by 90°
    commute.
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
    # One comparison and one shift turn a view into [False, mirrored, False], as positions are below 2.
    return tf.raw_ops.Reverse(tensor=image, dims=tf.roll(view >= [2.0, 2.0, 0.5], shift=-1, axis=0))
