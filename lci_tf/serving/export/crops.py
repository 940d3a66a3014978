"""Images as they come in a request to the crops that a network sees, inside the served graph.

By the functions of training and evaluation (`lci_tf.imaging.images`), so that a served feature is the evaluated one.
"""

import functools
from typing import NamedTuple

import tensorflow as tf

from lci_tf.imaging import decoding, images
from lci_tf.serving import unreadable

# How many images of a request are decoded at once (tuning itself, a data set would begin with one, and be done soon):
# the fewer, the larger they may be. So no more is under way than one of the largest takes.
_AT_ONCE = (16, 4, 1)


class Limits(NamedTuple):
    """What a request may cost.

    Attributes:
      image_pixels: of one image, which counts as unreadable if it has more; those of a JPEG count once more for every
        16 scans, and those of a GIF twice. Three bytes for each are the most that is under way at once.
      request_bytes: decoded, of all images together; a request for more fails. A JPEG that is to be shrunk is decoded
        to fewer. Small JPEGs, of at most four times the pixels of what is kept of an image, do not count.
    """

    image_pixels: int = 100_000_000
    request_bytes: int = 4_000_000_000


DEFAULT_LIMITS = Limits()


def of_images(pixels: tf.Tensor, crop_size: int, resize: float, views: str = "centre") -> tf.Tensor:
    """uint8 [n, height, width, 3] of any size to crops, float32 [n, views, crop_size, crop_size, 3] in [-1, 1].

    Args:
      crop_size, resize: see `images.preprocess`.
      views: a name in `images.VIEWS`.
    """
    places = images.VIEWS[views]
    cropped = tf.map_fn(
        lambda image: images.crop(image, tf.constant(places), crop_size, resize),
        pixels,
        fn_output_signature=tf.TensorSpec([len(places), crop_size, crop_size, 3], tf.uint8),
    )
    return images.scale(cropped)


def of_bytes(
    contents: tf.Tensor, crop_size: int, resize: float, views: str = "centre", limits: Limits = DEFAULT_LIMITS
) -> tuple[tf.Tensor, tf.Tensor]:
    """Encoded images, strings [n], to crops as above, and which of them could be read, bool [n].

    The crops of an image that could not be read are grey (0).
    """
    places = tf.constant(images.VIEWS[views])
    count, shape = tf.size(contents), [places.shape[0], crop_size, crop_size, 3]

    def plain_jpeg(content):
        return images.crop_plain_jpeg(content, places, crop_size, resize)

    def any_image(at_once, content):
        pixels = images.pixels(content, resize, limits.image_pixels // at_once)
        return images.crop(pixels, places, crop_size, resize)

    cropped, valid = tf.zeros([count, *shape], tf.uint8), tf.zeros([count], tf.bool)
    # The same pixels as in any other way, but most images need no more than this.
    cropped, valid = _load(plain_jpeg, _AT_ONCE[0], contents, tf.range(count, dtype=tf.int64), cropped, valid)
    with tf.control_dependencies([_require_affordable(contents, tf.where(~valid)[:, 0], resize, limits)]):
        valid = tf.identity(valid)
    for at_once in _AT_ONCE:
        missing = tf.where(~valid)[:, 0]
        cropped, valid = tf.cond(
            tf.equal(tf.size(missing), 0),
            lambda cropped=cropped, valid=valid: (cropped, valid),
            functools.partial(_load, functools.partial(any_image, at_once), at_once, contents, missing, cropped, valid),
        )
    return tf.where(tf.reshape(valid, [-1, 1, 1, 1, 1]), images.scale(cropped), 0.0), valid


def _require_affordable(contents, numbers, resize, limits):
    """Fails if decoding the contents with these numbers would exceed the limit of a request."""

    def worth():
        pixels = _each(lambda content: decoding.decoded_pixels(content, resize), tf.float32, [], _AT_ONCE[0])
        decoded = pixels(contents, numbers)[1]
        # One that is too large by itself is not decoded at all.
        return 3.0 * tf.reduce_sum(tf.where(decoded <= limits.image_pixels, tf.cast(decoded, tf.float64), 0.0))

    total = tf.cond(tf.equal(tf.size(numbers), 0), lambda: tf.constant(0.0, tf.float64), worth)
    message = tf.strings.format(
        "image_bytes: would be {} MB of pixels, and a request may have {}; ask for fewer images at once",
        (tf.cast(total / 1e6, tf.int64), limits.request_bytes // 10**6),
    )
    return tf.debugging.Assert(total <= limits.request_bytes, [message])


def _load(load, at_once, contents, numbers, cropped, valid):
    """Crops and their validity with those of the contents of these numbers that `load` can load."""
    numbers, crops = _each(load, tf.uint8, cropped.shape[1:], at_once)(contents, numbers)
    return (
        tf.tensor_scatter_nd_update(cropped, numbers[:, tf.newaxis], crops),
        tf.tensor_scatter_nd_update(valid, numbers[:, tf.newaxis], tf.ones_like(numbers, tf.bool)),
    )


def _each(function, dtype, shape, at_once):
    """From contents and numbers of some of them to the numbers of those for which `function` gives something, and that.

    A graph knows no exceptions, but a data set can pass over the elements that fail.
    """

    def of(contents, numbers):
        each = tf.data.Dataset.from_tensor_slices((numbers, tf.gather(contents, numbers)))
        made = each.map(
            lambda number, content: (number, function(content)), num_parallel_calls=at_once, deterministic=False
        ).ignore_errors()
        # Behind the last, an element that always is: there is something to batch even if all images fail.
        sentinel = tf.data.Dataset.from_tensors((tf.constant(0, tf.int64), tf.zeros(shape, dtype)))
        found, values = made.concatenate(sentinel).batch(tf.size(contents, tf.int64) + 1).get_single_element()
        return found[:-1], values[:-1]

    return of


def require_all(crops: tf.Tensor, valid: tf.Tensor, contents: tf.Tensor) -> tf.Tensor:
    """The crops, if all are valid; otherwise the request fails, with a message that names the invalid images."""
    message = unreadable.message(contents, valid)
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(valid), [message])]):
        return tf.identity(crops)
