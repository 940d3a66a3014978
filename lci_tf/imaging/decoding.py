"""Decodes image files with graph operations, so that training, evaluation and served models all decode alike.

It reads JPEG, PNG, BMP and GIF (first frame), recognised by content, not by file name. Grey, palette, RGBA (without its
alpha) and CMYK all become RGB. Everything else fails with `InvalidArgumentError`; `why_refused` says why in words.
"""

import contextlib
import io
import struct
import warnings

import tensorflow as tf
from PIL import Image, UnidentifiedImageError

from lci_tf.imaging import bmp, gif, jpeg, octets

# More than any camera has. A PNG of a few kilobytes can claim 30,000 × 30,000 pixels; such files are not decoded.
MAX_PIXELS = 200_000_000

# Pillow warns about odd metadata. Filtered permanently, as filters are global and images are read in threads.
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")


def decode(contents: tf.Tensor, short_side: float | None = None, most: int = MAX_PIXELS) -> tf.Tensor:
    """Decodes one image, and turns it upright.

    Args:
      contents: scalar string.
      short_side: if given, the caller will shrink the short side to about this, in pixels. A JPEG is then decoded at
        1/2, 1/4 or 1/8 of its size if enough pixels remain, which is much faster for large photographs.
      most: largest number of pixels that an image may have; those of a JPEG count once more for every 16 scans, and
        those of a GIF twice.

    Returns:
      uint8 [height, width, 3], with the EXIF orientation of JPEGs applied.
    """
    image = tf.cond(
        jpeg.is_jpeg(contents), lambda: jpeg.decode(contents, short_side, most), lambda: _decode_other(contents, most)
    )
    return tf.ensure_shape(image, [None, None, 3])


def decode_plain_jpeg(contents: tf.Tensor, largest: float) -> tf.Tensor:
    """Decodes a JPEG without metadata whose short side is at most `largest`; else raises `InvalidArgumentError`.

    For small images, every operation counts. So instead of reading the orientation in the metadata, this refuses what
    has no JFIF header of 20 bytes with a table right after it, mentions EXIF anywhere, or has more than four times the
    pixels of a square of that side.
    """
    return jpeg.decode_plain(contents, largest)


def decoded_pixels(contents: tf.Tensor, short_side: float | None = None) -> tf.Tensor:
    """The cost of decoding in pixels, float32, from the header alone; see `decode`. 0 if it is not an image."""

    def of_other():
        head = _head(contents)
        return _by_kind(
            head,
            lambda: _area(*_png_size(head)),
            lambda: gif.FRAMES * _area(*gif.size(head)),
            lambda: _area(*bmp.size(head)),
            otherwise=lambda: tf.constant(0.0),
        )

    return tf.cond(jpeg.is_jpeg(contents), lambda: jpeg.decoded_pixels(contents, short_side), of_other)


def _area(height, width):
    return tf.cast(height, tf.float32) * tf.cast(width, tf.float32)


def _decode_other(contents, most):
    head = _head(contents)
    return _by_kind(
        head,
        lambda: _decode_png(contents, head, most),
        lambda: gif.decode(contents, head, most),
        lambda: bmp.decode(contents, head, most),
        otherwise=lambda: _refuse("not a JPEG, PNG, BMP or GIF image"),
    )


def _by_kind(head, png, gif, bmp, otherwise):
    def starts_with(magic):
        return tf.reduce_all(tf.equal(head[: len(magic)], list(magic)))

    kinds = [(starts_with(b"\x89PNG\r\n\x1a\n"), png), (starts_with(b"GIF8"), gif), (starts_with(b"BM"), bmp)]
    return tf.case(kinds, default=otherwise)


def _head(contents):
    """int32 [80]. A shorter file is padded with zeros, so that it is refused like any other that is not an image."""
    return tf.ensure_shape(octets.of(tf.strings.substr(contents, 0, 80), spare=80)[:80], [80])


def _png_size(head):
    return octets.big_endian(head[20:24]), octets.big_endian(head[16:20])


def _decode_png(contents, head, most):
    eight_bits = octets.require(head[24] <= 8, ["a PNG with 16 bits per channel"])
    height, width = _png_size(head)
    with tf.control_dependencies([octets.require_decodable(height, width, most), eight_bits]):
        return tf.io.decode_png(contents, channels=3)


def _refuse(message):
    with tf.control_dependencies([octets.require(False, [message])]):
        return tf.zeros([1, 1, 3], tf.uint8)


def header_of(contents: bytes) -> Image.Image:
    """Reads only the header of an image, with Pillow, whatever size it claims.

    `Image.open` refuses large images, by a global limit that is not ours to change, least of all in a thread.
    """
    Image.init()
    for read, accepts in [Image.OPEN[name] for name in Image.ID]:
        answer = accepts(contents[:16]) if accepts else True
        if answer and not isinstance(answer, str):  # a string says why not
            with contextlib.suppress(
                SyntaxError, IndexError, TypeError, struct.error
            ):  # it is not of this format after all
                return read(io.BytesIO(contents), "")
    raise UnidentifiedImageError


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
    if width * height * (gif.FRAMES if name == "GIF" else 1) > MAX_PIXELS:
        return f"claims {width:,} × {height:,} pixels, more than the {MAX_PIXELS:,} that are decoded"
    scans = contents.count(b"\xff\xda")
    if name in ("JPEG", "MPO") and width * height * (1 + scans // jpeg.SCANS_AS_ONE) > MAX_PIXELS:
        return f"is a JPEG of {width:,} × {height:,} pixels in {scans:,} scans, which would take too long to decode"
    if name not in ("JPEG", "MPO", "PNG", "BMP", "GIF"):
        return f"is a {'WebP' if name == 'WEBP' else name} file, which is not read; convert it to JPEG or PNG"
    if mode.startswith(("I", "F")) or (name == "PNG" and contents[24] == 16):
        return f"is a {name} with 16 bits per channel, which is not read; convert it to 8 bits"
    if name == "BMP":
        return "is a BMP that is damaged, compressed or of an unusual bit depth; convert it to PNG"
    return f"is a {name} file that is truncated or damaged"
