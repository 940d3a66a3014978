"""Numbers and checks in the headers of image files, as graph operations."""

from collections.abc import Sequence

import tensorflow as tf


def of(contents: tf.Tensor, spare: int = 0) -> tf.Tensor:
    """The bytes of a scalar string, int32 [bytes + spare]. The zeros at the end let a reader look a little too far."""
    return tf.concat([tf.cast(tf.io.decode_raw(contents, tf.uint8), tf.int32), tf.zeros([spare], tf.int32)], axis=0)


def little_endian(octets: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(octets * [256**i for i in range(octets.shape[0])])


def big_endian(octets: tf.Tensor) -> tf.Tensor:
    return little_endian(octets[::-1])


def require_decodable(height: tf.Tensor, width: tf.Tensor, most: int, times: tf.Tensor | int = 1) -> tf.Operation:
    """Fails, and names the size, unless there are 1 to `most` pixels, each counted as often as it is decoded."""
    pixels = tf.cast(height, tf.float32) * tf.cast(width, tf.float32) * tf.cast(times, tf.float32)
    return require((pixels <= most) & (height > 0) & (width > 0), ["absurd image size", height, width, times])


def require(holds: tf.Tensor, message: Sequence[str | tf.Tensor]) -> tf.Operation:
    return tf.debugging.Assert(holds, message)
