"""Checks that the codes of a GIF's pixels are ones that an encoder could have written.

TensorFlow accepts codes that are not in the table yet, and returns an image of which only some rows are right. The
width of a code depends only on how many came before it since the table was last cleared, so all codes up to the next
clearing are checked together.
"""

import tensorflow as tf

_TOGETHER = 1024  # codes
_WIDEST = 12  # bits
# The fewest bytes per clearing, apart from the first few clearings, so that checking a hostile file takes bounded time.
# Encoders that do not compress at all clear every 126 bytes.
_LEAST_BETWEEN, _FREE = 64, 64


def is_valid(data: tf.Tensor, colour_bits: tf.Tensor) -> tf.Tensor:
    """Whether bytes, int32 [n], are valid codes up to the end code, for colours of `colour_bits` bits, 2 to 8."""
    clear, count = tf.bitwise.left_shift(1, colour_bits), tf.size(data)
    padded = tf.concat([data, tf.zeros([3], tf.int32)], axis=0)
    most = count // _LEAST_BETWEEN + _FREE

    def look(position, since_clear, looks, _, __):
        numbers = since_clear + tf.range(_TOGETHER)
        # The code that each one read may define, and the width of codes at that point.
        following = tf.minimum(clear + 1 + tf.maximum(numbers, 1), 2**_WIDEST)
        widths = colour_bits + 1
        for bits in range(3, _WIDEST):
            widths += tf.cast((following >= 2**bits) & (colour_bits < bits), tf.int32)
        ends = position + tf.cumsum(widths)
        codes = _read(padded, ends - widths, widths, count)
        stops = tf.equal(codes, clear) | tf.equal(codes, clear + 1) | (ends > 8 * count)
        at = tf.where(tf.reduce_any(stops), tf.argmax(stops, output_type=tf.int32), _TOGETHER)
        valid = (codes <= following) & ((numbers > 0) | (codes < clear))
        valid = tf.reduce_all(valid | (tf.range(_TOGETHER) >= at))
        last = tf.minimum(at, _TOGETHER - 1)
        is_clear = (at < _TOGETHER) & tf.equal(codes[last], clear)
        is_over = (at < _TOGETHER) & ~is_clear | (ends[last] > 8 * count)
        return ends[last], tf.where(is_clear, 0, since_clear + _TOGETHER), looks + 1, valid, is_over

    def goes_on(position, since_clear, looks, valid, is_over):
        return valid & ~is_over & (looks < most)

    start = [tf.constant(0), tf.constant(0), tf.constant(0), tf.constant(True), tf.constant(False)]
    _, _, _, valid, is_over = tf.while_loop(goes_on, look, start)
    return valid & is_over


def _read(padded, starts, widths, count):
    """Reads numbers of these widths, lowest bits first; they are 0 after the end."""
    at = tf.minimum(starts // 8, count)
    three = sum(tf.gather(padded, at + i) * 256**i for i in range(3))
    return tf.bitwise.bitwise_and(tf.bitwise.right_shift(three, starts % 8), tf.bitwise.left_shift(1, widths) - 1)
