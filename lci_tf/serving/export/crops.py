"""Images as they come in a request to the crops that a network sees, inside the served graph.

By the same functions as in training and evaluation (`lci_tf.imaging.images`), so that a served feature is the evaluated
one.
"""

import functools

import tensorflow as tf

from lci_tf.imaging import images
from lci_tf.serving import unreadable

_AT_ONCE = 16  # images of a request that are decoded; tuning itself, a data set would begin with one, and be done soon


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


def of_bytes(contents: tf.Tensor, crop_size: int, resize: float, views: str = "centre") -> tuple[tf.Tensor, tf.Tensor]:
    """Encoded images, strings [n], to crops as above, and which of them could be read, bool [n].

    The crops of an image that could not be read are grey (0).
    """
    places = tf.constant(images.VIEWS[views])
    count, shape = tf.size(contents), [places.shape[0], crop_size, crop_size, 3]

    def plain_jpeg(content):
        return images.crop_plain_jpeg(content, places, crop_size, resize)

    def any_image(content):
        return images.crop(images.pixels(content, resize), places, crop_size, resize)

    cropped, valid = tf.zeros([count, *shape], tf.uint8), tf.zeros([count], tf.bool)
    for load in (plain_jpeg, any_image):  # the same pixels, but most images need no more than the first
        missing = tf.where(~valid)[:, 0]
        cropped, valid = tf.cond(
            tf.equal(tf.size(missing), 0),
            lambda cropped=cropped, valid=valid: (cropped, valid),
            functools.partial(_load, load, contents, missing, cropped, valid),
        )
    return tf.where(tf.reshape(valid, [-1, 1, 1, 1, 1]), images.scale(cropped), 0.0), valid


def _load(load, contents, numbers, cropped, valid):
    """Crops and their validity with those of the contents of these numbers that `load` can load."""
    each = tf.data.Dataset.from_tensor_slices((numbers, tf.gather(contents, numbers)))
    # A graph knows no exceptions, but a data set can pass over the elements that fail.
    loaded = each.map(
        lambda number, content: (number, load(content)), num_parallel_calls=_AT_ONCE, deterministic=False
    ).ignore_errors()
    # Behind the last, an element that always loads: there is something to batch even if all images fail.
    sentinel = tf.data.Dataset.from_tensors((tf.constant(0, tf.int64), tf.zeros(cropped.shape[1:], tf.uint8)))
    numbers, crops = loaded.concatenate(sentinel).batch(tf.size(contents, tf.int64) + 1).get_single_element()
    numbers, crops = numbers[:-1, tf.newaxis], crops[:-1]
    return (
        tf.tensor_scatter_nd_update(cropped, numbers, crops),
        tf.tensor_scatter_nd_update(valid, numbers, tf.ones_like(numbers[:, 0], tf.bool)),
    )


def require_all(crops: tf.Tensor, valid: tf.Tensor, contents: tf.Tensor) -> tf.Tensor:
    """The crops, if all are valid; else the request fails, and is told which of its contents are not."""
    message = unreadable.message(contents, valid)
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(valid), [message])]):
        return tf.identity(crops)
