"""Decodes JPEG files: turned upright, and at a fraction of their size if the caller will shrink them anyway."""

import math

import tensorflow as tf

from lci_tf.imaging import octets

# Every scan of a progressive JPEG goes over the whole image. Ten are usual, but 6,000 fit into 66 kB. This many take as
# long as decoding the image once.
SCANS_AS_ONE = 16

_DCT = "INTEGER_ACCURATE"  # explicit, as TensorFlow's default may change
_EXIF = "Exif\\x00\\x00"
_EXIF_WITHIN = 131_072  # bytes; the EXIF segment, of at most 65,536, comes first or after a few others
_FIRST, _APP1, _START_OF_SCAN = 0xC0, 0xE1, 0xDA  # markers


def is_jpeg(contents: tf.Tensor) -> tf.Tensor:
    return tf.equal(tf.strings.substr(contents, 0, 3), b"\xff\xd8\xff")


def decode(contents: tf.Tensor, short_side: float | None, most: int) -> tf.Tensor:
    """See `decoding.decode`."""
    height, width = tf.unstack(tf.io.extract_jpeg_shape(contents)[:2])
    begins = octets.require(octets.of(tf.strings.substr(contents, 3, 1), spare=1)[0] >= _FIRST, ["a damaged JPEG"])
    with tf.control_dependencies([begins, octets.require_decodable(height, width, most, _passes(contents))]):
        image = _decode_shrunk(contents, height, width, short_side)
    head = tf.strings.substr(contents, 0, _EXIF_WITHIN)
    return tf.cond(_mentions_exif(head), lambda: _upright(image, _orientation(head)), lambda: image)


def decode_plain(contents: tf.Tensor, largest: float) -> tf.Tensor:
    """See `decoding.decode_plain_jpeg`."""
    largest = math.floor(largest)
    jfif = tf.equal(tf.strings.substr(contents, 0, 11), b"\xff\xd8\xff\xe0\x00\x10JFIF\x00")
    table = tf.equal(tf.strings.substr(contents, 20, 2), b"\xff\xdb")
    # More than half a byte per pixel, besides tables, means unusually high quality or many scans.
    most = largest**2 // 2 + 4096
    short = tf.strings.length(contents) <= most
    may_be_turned = _mentions_exif(tf.strings.substr(contents, 0, most))
    with tf.control_dependencies([octets.require(jfif & table & short & ~may_be_turned, ["not a plain JPEG"])]):
        sides = tf.cast(tf.io.extract_jpeg_shape(contents)[:2], tf.int64)
    # Large areas of one colour take hardly a byte, so the file's size does not bound the image's.
    few = (tf.reduce_min(sides) <= largest) & (tf.reduce_prod(sides) <= 4 * largest**2)
    with tf.control_dependencies([octets.require(few, ["to be shrunk"])]):
        return tf.io.decode_jpeg(contents, channels=3, dct_method=_DCT)


def decoded_pixels(contents: tf.Tensor, short_side: float | None) -> tf.Tensor:
    """The cost of decoding in pixels, float32: those of the result, and those of the whole for every 16 scans."""
    height, width = tf.unstack(tf.io.extract_jpeg_shape(contents)[:2])
    ratio = tf.constant(1) if short_side is None else _ratio(height, width, short_side)
    area = tf.cast(height, tf.float32) * tf.cast(width, tf.float32)
    return area / tf.cast(ratio, tf.float32) ** 2 + area * tf.cast(_passes(contents) - 1, tf.float32)


def _mentions_exif(contents):
    return tf.strings.regex_full_match(contents, rf"(?s)\C*{_EXIF}\C*")


def _passes(contents):
    """1, plus one for every 16 scans; whatever looks like the start of a scan counts, even in metadata."""
    read = tf.io.decode_raw(contents, tf.uint8)
    starts = tf.equal(read[:-1], 0xFF) & tf.equal(read[1:], _START_OF_SCAN)
    return 1 + tf.math.count_nonzero(starts, dtype=tf.int32) // SCANS_AS_ONE


def _ratio(height, width, short_side):
    """1, 2, 4 or 8: how much smaller than the image the decoded one can be; sizes are rounded down."""
    spare = tf.minimum(height, width) // math.ceil(short_side)
    return tf.case([(spare < 2, lambda: 1), (spare < 4, lambda: 2), (spare < 8, lambda: 4)], default=lambda: 8)


def _decode_shrunk(contents, height, width, short_side):
    def at(ratio):
        def decode_at():
            image = tf.io.decode_jpeg(contents, channels=3, ratio=ratio, dct_method=_DCT)
            # The library rounds sizes up, and fills the last row and column with the encoder's padding: an edge that
            # is always at the bottom and on the right, and would give rotations away.
            return image[: height // ratio, : width // ratio]

        return decode_at

    if short_side is None:
        return at(1)()
    ratio = _ratio(height, width, short_side)
    return tf.switch_case(tf.gather([0, 0, 1, 0, 2, 0, 0, 0, 3], ratio), [at(1), at(2), at(4), at(8)])


def _orientation(head):
    """The orientation, 1 to 8, in the first directory of the TIFF structure of the EXIF segment; 1 if none."""
    # Zeros behind a truncated structure read as "no entries" and "no such tag".
    read = octets.of(head, spare=16)
    read = read[_exif(read) :]
    last = tf.size(read) - 1
    little_endian = tf.reduce_all(tf.equal(read[:4], list(b"II*\0")))
    is_tiff = little_endian | tf.reduce_all(tf.equal(read[:4], list(b"MM\0*")))

    def number(offset, size):
        values = [tf.gather(read, tf.clip_by_value(offset + i, 0, last)) for i in range(size)]
        big = sum(v * 256 ** (size - 1 - i) for i, v in enumerate(values))
        little = sum(v * 256**i for i, v in enumerate(values))
        return tf.where(little_endian, little, big)

    directory = tf.clip_by_value(number(tf.constant(4), 4), 0, last)
    entries = directory + 2 + 12 * tf.range(tf.minimum(number(directory, 2), 512))
    # The tag, its type (a 16-bit integer), and the number of values.
    is_orientation = tf.equal(number(entries, 2), 0x0112) & tf.equal(number(entries + 2, 2), 3)
    is_orientation &= tf.equal(number(entries + 4, 4), 1) & is_tiff
    values = tf.boolean_mask(number(entries + 8, 2), is_orientation)
    return tf.reduce_max(tf.concat([values[:1], [1]], axis=0))


def _exif(read):
    """The place of the TIFF structure; that of the zeros if no segment has one, as a comment may mention Exif too."""
    end = tf.size(read) - 16

    def marker(at):
        return tf.gather(read, at), tf.gather(read, at + 1)

    def size_of(at):
        return octets.big_endian(tf.ensure_shape(read[at + 2 : at + 4], [2]))

    def is_exif(at):
        first, kind = marker(at)
        is_named = tf.reduce_all(tf.equal(read[at + 4 : at + 10], list(b"Exif\0\0")))
        return tf.equal(first, 0xFF) & tf.equal(kind, _APP1) & is_named & (size_of(at) > 8)

    def goes_on(at):
        first, kind = marker(at)
        return (at < end) & tf.equal(first, 0xFF) & tf.not_equal(kind, _START_OF_SCAN) & ~is_exif(at)

    def next_segment(at):
        fill = tf.equal(tf.gather(read, at + 1), 0xFF)  # any number of fill bytes may precede a marker
        size = tf.where(fill, 1, 2 + size_of(at))
        return (tf.minimum(at + size, end),)

    (found,) = tf.while_loop(goes_on, next_segment, [tf.constant(2)])
    return tf.cond(is_exif(found), lambda: found + 10, lambda: end)


def _upright(image, orientation):
    """Undoes EXIF orientations: 2, 4, 5, 7 are mirrored; 3 is upside down; 6 and 8 lie on a side."""
    swapped = tf.logical_and(orientation >= 5, orientation <= 8)
    image = tf.cond(swapped, lambda: tf.transpose(image, [1, 0, 2]), lambda: image)

    def any_of(*values):
        return tf.reduce_any(tf.equal(orientation, values))

    image = tf.cond(any_of(3, 4, 7, 8), lambda: image[::-1], lambda: image)
    return tf.cond(any_of(2, 3, 6, 7), lambda: image[:, ::-1], lambda: image)
