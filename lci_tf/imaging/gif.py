"""Decodes the first frame of a GIF file, if it is complete.

TensorFlow decodes a truncated frame as if it were complete, and fills the rest with whatever was in memory. It also
decodes every frame, and a few kilobytes can hold thousands. So it only gets the first frame, followed by a known one:
that one is found only if the first has been read to its end.
"""

import tensorflow as tf

from lci_tf.imaging import lzw, octets

FRAMES = 2
_EXTENSION, _IMAGE = 0x21, 0x2C
_SPARE = 300  # room for a block and an image header
# One pixel, with its own table of two colours.
_KNOWN_FRAME = b"\x2c\0\0\0\0\x01\0\x01\0\x80" + b"\0" * 6 + b"\x02\x02\x44\x01\0" + b"\x3b"


def decode(contents: tf.Tensor, head: tf.Tensor, most: int) -> tf.Tensor:
    """Decodes a GIF file, whose first bytes are `head`, to uint8 [height, width, 3].

    Fails with `InvalidArgumentError` if the file is damaged, or if the first frame does not fill the image.
    """
    read = octets.of(contents, spare=_SPARE)
    last = tf.size(read) - _SPARE
    start = _first_frame(read, last)
    frame = tf.ensure_shape(read[start : start + 10], [10])
    fills = tf.reduce_all(tf.equal(frame[1:9], [0, 0, 0, 0, *tf.unstack(head[6:10])]))
    checks = [
        octets.require(tf.equal(frame[0], _IMAGE), ["a GIF without an image"]),
        octets.require(tf.reduce_any(tf.equal(head[4], list(b"79"))) & tf.equal(head[5], ord("a")), ["a damaged GIF"]),
        octets.require(fills, ["a GIF whose first frame does not fill it"]),
        octets.require_decodable(*size(head), most // FRAMES),
    ]
    data = tf.minimum(start + 10 + _table(frame[9]), last)
    with tf.control_dependencies(checks):
        sizes, end = _blocks(read, data + 1, last)
    is_whole = octets.require(end <= last, ["a GIF that is truncated"])
    with tf.control_dependencies([is_whole]):
        is_block = tf.tensor_scatter_nd_update(tf.ones([tf.size(read)], tf.bool), sizes[:, tf.newaxis],
                                               tf.zeros_like(sizes, tf.bool))  # fmt: skip
        codes = tf.boolean_mask(read[data + 1 : end - 1], is_block[data + 1 : end - 1])
    colour_bits = tf.gather(read, data)
    with tf.control_dependencies([octets.require((colour_bits >= 2) & (colour_bits <= 8), ["a damaged GIF"])]):
        is_valid = lzw.is_valid(codes, colour_bits)
    with tf.control_dependencies([octets.require(is_valid, ["a GIF that is damaged"])]):
        frames = tf.io.decode_gif(tf.strings.substr(contents, 0, end) + _KNOWN_FRAME)
    with tf.control_dependencies([octets.require(tf.equal(tf.shape(frames)[0], 2), ["a GIF that breaks off"])]):
        return tf.identity(frames[0])


def size(head: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Height and width, from a file's first bytes."""
    return octets.little_endian(head[8:10]), octets.little_endian(head[6:8])


def _first_frame(read, last):
    """The place of the first frame, after any extensions; or of something else, if that follows."""
    start = 13 + _table(tf.gather(read, 10))
    (start,) = tf.while_loop(
        lambda at: (at < last) & tf.equal(tf.gather(read, at), _EXTENSION),
        lambda at: (tf.minimum(_blocks(read, at + 2, last)[1], last),),
        [tf.minimum(start, last)],
    )
    return start


def _blocks(read, at, last):
    """Finds a sequence of blocks, each of up to 255 bytes after its size; the last has size 0.

    Returns:
      The places of all sizes but the last, int32 [n]; and the place after the blocks, beyond `last` if truncated.
    """
    sizes = tf.TensorArray(tf.int32, 0, dynamic_size=True, element_shape=[])
    end, sizes = tf.while_loop(
        lambda at, _: (at < last) & (tf.gather(read, at) > 0),
        lambda at, sizes: (at + 1 + tf.gather(read, at), sizes.write(sizes.size(), at)),
        [at, sizes],
    )
    return sizes.stack(), end + 1


def _table(flags):
    """The size in bytes of a colour table; 0 if the flags say that there is none."""
    return tf.where(flags >= 128, 3 * tf.bitwise.left_shift(2, flags % 8), 0)
