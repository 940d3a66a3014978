"""Encoded image files to pixels, in graph operations, so that training, evaluation and a served model decode alike.

JPEG, PNG, BMP and GIF (first frame) are read, by content and not by file name: grey, palette, RGBA (alpha is
dropped) and CMYK all become RGB. Everything else fails with `InvalidArgumentError`; `why_refused` says in words why.
"""

import contextlib
import io
import math
import warnings
from collections.abc import Iterator

import tensorflow as tf
from PIL import Image

# More than any camera makes. A few kilobytes of PNG can claim 30,000 × 30,000 pixels; decoding them is not tried.
MAX_PIXELS = 200_000_000

_DCT = "INTEGER_ACCURATE"  # said outright, because TensorFlow's default may change
_EXIF = "Exif\\x00\\x00"
_EXIF_WITHIN = 131_072  # bytes; the EXIF segment, of at most 65,536, comes first or after a few others


def decode(contents: tf.Tensor, short_side: float | None = None) -> tf.Tensor:
    """Decodes one encoded image, upright.

    Args:
      contents: scalar string.
      short_side: the caller will shrink the image to about this. A JPEG is then decoded at 1/2, 1/4 or 1/8 where
        enough pixels remain, which is much faster for a large photograph.

    Returns:
      uint8 [height, width, 3], with the EXIF orientation of JPEGs applied.
    """
    image = tf.cond(_is_jpeg(contents), lambda: _decode_jpeg(contents, short_side), lambda: _decode_other(contents))
    return tf.ensure_shape(image, [None, None, 3])


def decode_plain_jpeg(contents: tf.Tensor, largest: float) -> tf.Tensor:
    """`decode` of a JPEG that has no metadata and a short side of at most `largest`; else an `InvalidArgumentError`.

    For a small image every operation here counts. So metadata, which would have to be searched for an orientation, are
    ruled out by two glances: the JFIF header, 20 bytes long, is followed by a table. And with the short side the whole
    is bounded, because JPEG has no side above 65,535.
    """
    jfif = tf.equal(tf.strings.substr(contents, 0, 11), b"\xff\xd8\xff\xe0\x00\x10JFIF\x00")
    table = tf.equal(tf.strings.substr(contents, 20, 2), b"\xff\xdb")
    with tf.control_dependencies([tf.debugging.Assert(jfif & table, ["not a plain JPEG"])]):
        short = tf.reduce_min(tf.io.extract_jpeg_shape(contents)[:2])
    with tf.control_dependencies([tf.debugging.Assert(short <= math.floor(largest), ["to be shrunk"])]):
        return tf.io.decode_jpeg(contents, channels=3, dct_method=_DCT)


def _is_jpeg(contents):
    return tf.equal(tf.strings.substr(contents, 0, 3), b"\xff\xd8\xff")


def _decode_jpeg(contents, short_side):
    height, width = tf.unstack(tf.io.extract_jpeg_shape(contents)[:2])
    with tf.control_dependencies([_assert_decodable(height, width)]):
        image = _decode_jpeg_shrunk(contents, height, width, short_side)
    head = tf.strings.substr(contents, 0, _EXIF_WITHIN)
    return tf.cond(_has_exif(head), lambda: _upright(image, _exif_orientation(head)), lambda: image)


def _has_exif(contents):
    return tf.strings.regex_full_match(contents, rf"(?s)\C*{_EXIF}\C*")


def _decode_jpeg_shrunk(contents, height, width, short_side):
    def at(ratio):
        def decode_at():
            image = tf.io.decode_jpeg(contents, channels=3, ratio=ratio, dct_method=_DCT)
            # The library rounds up, and fills the last row and column with what the encoder padded the image with:
            # an edge that is always below and on the right, and would give rotations away.
            return image[: height // ratio, : width // ratio]

        return decode_at

    if short_side is None:
        return at(1)()
    # In whole pixels, so that what is left after rounding down suffices.
    spare = tf.minimum(height, width) // math.ceil(short_side)
    return tf.cond(
        spare < 2,
        at(1),
        lambda: tf.case([(spare < 4, at(2)), (spare < 8, at(4))], default=at(8)),
    )


def _exif_orientation(head):
    """The orientation, 1 to 8, in the first directory of the TIFF structure behind the word "Exif"; 1 if none."""
    before = tf.strings.length(tf.strings.regex_replace(head, rf"(?s){_EXIF}\C*", ""))
    octets = tf.cast(tf.io.decode_raw(head, tf.uint8)[before + 6 :], tf.int32)
    # Zeros behind a truncated structure read as "no entries" and "no such tag".
    octets = tf.concat([octets, tf.zeros([16], tf.int32)], axis=0)
    last = tf.size(octets) - 1
    little_endian = tf.equal(octets[0], ord("I"))

    def number(offset, size):
        values = [tf.gather(octets, tf.clip_by_value(offset + i, 0, last)) for i in range(size)]
        big = sum(v * 256 ** (size - 1 - i) for i, v in enumerate(values))
        little = sum(v * 256**i for i, v in enumerate(values))
        return tf.where(little_endian, little, big)

    directory = tf.clip_by_value(number(tf.constant(4), 4), 0, last)
    entries = directory + 2 + 12 * tf.range(tf.minimum(number(directory, 2), 512))
    values = tf.boolean_mask(number(entries + 8, 2), tf.equal(number(entries, 2), 0x0112))
    return tf.reduce_max(tf.concat([values[:1], [1]], axis=0))


def _upright(image, orientation):
    """Undoes EXIF orientations: 2, 4, 5, 7 are mirrored; 3 is upside down; 6 and 8 lie on a side."""
    swapped = tf.logical_and(orientation >= 5, orientation <= 8)
    image = tf.cond(swapped, lambda: tf.transpose(image, [1, 0, 2]), lambda: image)

    def any_of(*values):
        return tf.reduce_any(tf.equal(orientation, values))

    image = tf.cond(any_of(3, 4, 7, 8), lambda: image[::-1], lambda: image)
    return tf.cond(any_of(2, 3, 6, 7), lambda: image[:, ::-1], lambda: image)


def _decode_other(contents):
    # Padded, so that a file of a few bytes is refused below like any other that is not an image.
    head = tf.io.decode_raw(tf.strings.substr(contents, 0, 64) + b"\0" * 64, tf.uint8)
    head = tf.ensure_shape(tf.cast(head[:64], tf.int32), [64])

    def starts_with(magic):
        return tf.reduce_all(tf.equal(head[: len(magic)], list(magic)))

    return tf.case(
        [
            (starts_with(b"\x89PNG\r\n\x1a\n"), lambda: _decode_png(contents, head)),
            (starts_with(b"GIF8"), lambda: _decode_gif(contents, head)),
            (starts_with(b"BM"), lambda: _decode_bmp(contents, head)),
        ],
        default=lambda: _refuse("not a JPEG, PNG, BMP or GIF image"),
    )


def _decode_png(contents, head):
    height, width, bit_depth = _big_endian(head[20:24]), _big_endian(head[16:20]), head[24]
    eight_bits = tf.debugging.Assert(bit_depth <= 8, ["a PNG with 16 bits per channel"])
    with tf.control_dependencies([_assert_decodable(height, width), eight_bits]):
        return tf.io.decode_png(contents, channels=3)


def _decode_gif(contents, head):
    with tf.control_dependencies([_assert_decodable(_little_endian(head[8:10]), _little_endian(head[6:8]))]):
        return tf.io.decode_image(contents, channels=3, expand_animations=False)


def _decode_bmp(contents, head):
    height, width = tf.abs(_little_endian(head[22:26])), _little_endian(head[18:22])
    bits, compression = _little_endian(head[28:30]), _little_endian(head[30:34])
    known = tf.reduce_any(tf.equal(bits, [8, 24, 32])) & tf.reduce_any(tf.equal(compression, [0, 3]))
    supported = tf.debugging.Assert(known, ["a BMP that is compressed or has", bits, "bits per pixel"])
    with tf.control_dependencies([_assert_decodable(height, width), supported]):
        image = tf.io.decode_bmp(contents)  # channels as in the file

    def through_palette():
        start = 14 + _little_endian(head[14:18])
        entries = _little_endian(head[46:50])
        entries = tf.where(entries > 0, tf.minimum(entries, 256), 256)
        palette = tf.io.decode_raw(tf.strings.substr(contents, start, 4 * entries), tf.uint8)
        return tf.gather(tf.reshape(palette, [-1, 4])[:, 2::-1], tf.cast(image[:, :, 0], tf.int32))

    return tf.cond(tf.equal(bits, 8), through_palette, lambda: image[:, :, :3])


def _big_endian(octets):
    return _little_endian(octets[::-1])


def _little_endian(octets):
    return tf.reduce_sum(octets * [256**i for i in range(octets.shape[0])])


def _assert_decodable(height, width):
    fits = tf.cast(height, tf.float32) * tf.cast(width, tf.float32) <= MAX_PIXELS
    return tf.debugging.Assert(fits & (height > 0) & (width > 0), ["absurd image size", height, width])


def _refuse(message):
    with tf.control_dependencies([tf.debugging.Assert(False, [message])]):
        return tf.zeros([1, 1, 3], tf.uint8)


@contextlib.contextmanager
def header_of(contents: bytes) -> Iterator[Image.Image]:
    """Pillow's image of which only the header was read, whatever size it claims."""
    limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of odd EXIF
            with Image.open(io.BytesIO(contents)) as image:
                yield image
    finally:
        Image.MAX_IMAGE_PIXELS = limit


def why_refused(contents: bytes) -> str:
    """Says in words why `decode` fails on these bytes, and what to do."""
    if not contents:
        return "is empty"
    if contents[4:8] == b"ftyp":
        return "is a HEIC, AVIF or video file, which is not read; convert it to JPEG or PNG"
    try:
        with header_of(contents) as image:
            name, (width, height), mode = image.format, image.size, image.mode
    except Exception:  # Pillow raises what it likes on broken headers
        return "is not an image, or its header is broken"
    if width * height > MAX_PIXELS:
        return f"claims {width:,} × {height:,} pixels, more than the {MAX_PIXELS:,} that are decoded"
    if name not in ("JPEG", "MPO", "PNG", "BMP", "GIF"):
        return f"is a {'WebP' if name == 'WEBP' else name} file, which is not read; convert it to JPEG or PNG"
    if mode.startswith(("I", "F")) or (name == "PNG" and contents[24] == 16):
        return f"is a {name} with 16 bits per channel, which is not read; convert it to 8 bits"
    if name == "BMP":
        return "is a BMP that is damaged, compressed or of an unusual bit depth; convert it to PNG"
    return f"is a {name} file that is truncated or damaged"
