"""Decodes BMP files with 8, 24 or 32 bits per pixel and without compression."""

import tensorflow as tf

from lci_tf.imaging import octets

_HEADERS = (40, 52, 56, 64, 108, 124)  # sizes of the header in all versions of the format, in bytes
_MASKS = list(bytes.fromhex("0000ff00 00ff0000 ff000000"))  # the usual masks of red, green and blue


def decode(contents: tf.Tensor, head: tf.Tensor, most: int) -> tf.Tensor:
    """Decodes a BMP file, whose first 66 bytes are `head`, to uint8 [height, width, 3]."""
    height, width = size(head)
    pixels_at, header = octets.little_endian(head[10:14]), octets.little_endian(head[14:18])
    planes, bits, compression = (octets.little_endian(head[i:j]) for i, j in ((26, 28), (28, 30), (30, 34)))
    entries = octets.little_endian(head[46:50])
    entries = tf.where(entries > 0, entries, 256)
    has_masks = tf.equal(compression, 3)
    known = tf.reduce_any(tf.equal(bits, [8, 24, 32])) & (tf.equal(compression, 0) | (has_masks & tf.equal(bits, 32)))
    usual = ~has_masks | tf.reduce_all(tf.equal(head[54:66], _MASKS))
    palette_at = 14 + header
    # With a wrong header size, colours would be read from the wrong place.
    behind = palette_at + tf.where(tf.equal(bits, 8), 4 * entries, 0)
    fits = tf.reduce_any(tf.equal(header, _HEADERS)) & (entries <= 256) & (behind <= pixels_at) & tf.equal(planes, 1)
    checks = [
        octets.require_decodable(height, width, most),
        octets.require(known & usual, ["a BMP that is compressed or has", bits, "bits per pixel"]),
        octets.require(fits, ["a damaged BMP"]),
    ]
    with tf.control_dependencies(checks):
        image = tf.io.decode_bmp(contents)  # channels as in the file

    def through_palette():
        palette = tf.io.decode_raw(tf.strings.substr(contents, palette_at, 4 * entries), tf.uint8)
        return tf.gather(tf.reshape(palette, [-1, 4])[:, 2::-1], tf.cast(image[:, :, 0], tf.int32))

    return tf.cond(tf.equal(bits, 8), through_palette, lambda: image[:, :, :3])


def size(head: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Height and width. A negative height means that rows start at the top."""
    return tf.abs(octets.little_endian(head[22:26])), octets.little_endian(head[18:22])
