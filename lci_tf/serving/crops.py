"""Images as they come in a request to the crops that a network sees, inside the served graph.

By the same functions as in training and evaluation (`lci_tf.images`), so that a served feature is the evaluated one.
"""

import tensorflow as tf

from lci_tf import images
from lci_tf.serving import unreadable


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
    places_of_crops = images.VIEWS[views]
    shape = [len(places_of_crops), crop_size, crop_size, 3]

    def load(place, content):
        return place, images.preprocess(content, tf.constant(places_of_crops), crop_size, resize)

    count = tf.size(contents)
    each = tf.data.Dataset.from_tensor_slices((tf.range(count), contents))
    # A graph knows no exceptions, but a data set can pass over the elements that fail.
    loaded = each.map(load, num_parallel_calls=tf.data.AUTOTUNE).ignore_errors()
    # Behind the last, an element that always loads: there is something to batch even if all images fail.
    sentinel = tf.data.Dataset.from_tensors((count, tf.zeros(shape)))
    batch = loaded.concatenate(sentinel).batch(tf.cast(count, tf.int64) + 1)
    places, crops = batch.get_single_element()
    places, crops = places[:-1, tf.newaxis], crops[:-1]
    valid = tf.scatter_nd(places, tf.ones_like(places[:, 0]), [count]) > 0
    return tf.scatter_nd(places, crops, [count, *shape]), valid


def require_all(crops: tf.Tensor, valid: tf.Tensor, contents: tf.Tensor) -> tf.Tensor:
    """The crops, if all are valid; else the request fails, and is told which of its contents are not."""
    message = unreadable.message(contents, valid)
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(valid), [message])]):
        return tf.identity(crops)
