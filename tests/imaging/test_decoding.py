"""Decoding against Pillow, an independent reader of the same files."""

import io
import struct
import time
import zlib

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps

from lci_tf.imaging import decoding

decode = tf.function(decoding.decode, input_signature=[tf.TensorSpec([], tf.string)])


def photograph(height=60, width=90):
    """Smooth colours with some detail, so that JPEG keeps it well."""
    y, x = np.mgrid[:height, :width]
    channels = [128 + 100 * np.sin(x / 9 + k) * np.cos(y / 7 - k) for k in range(3)]
    return Image.fromarray(np.stack(channels, axis=-1).astype(np.uint8))


def encoded(image, format, **options):
    contents = io.BytesIO()
    image.save(contents, format, **options)
    return contents.getvalue()


LOSSLESS = {
    "PNG": (photograph(), "PNG"),
    "PNG, grey": (photograph().convert("L"), "PNG"),
    "PNG, grey with alpha": (photograph().convert("LA"), "PNG"),
    "PNG, RGBA": (photograph().convert("RGBA"), "PNG"),
    "PNG, palette": (photograph().quantize(32), "PNG"),
    "PNG, black and white": (photograph().convert("1"), "PNG"),
    "BMP": (photograph(), "BMP"),
    "BMP, grey": (photograph().convert("L"), "BMP"),
    "BMP, RGBA": (photograph().convert("RGBA"), "BMP"),
    "BMP, palette": (photograph().quantize(100), "BMP"),
    "GIF": (photograph().quantize(64), "GIF"),
    "JPEG": (photograph(), "JPEG"),
    "JPEG, grey": (photograph().convert("L"), "JPEG"),
    "JPEG, CMYK": (photograph().convert("CMYK"), "JPEG"),
    "JPEG, progressive": (photograph(), "JPEG"),
}


@pytest.mark.parametrize("kind", LOSSLESS)
def test_decodes_as_pillow_does(kind):
    image, format = LOSSLESS[kind]
    contents = encoded(image, format, **({"progressive": True} if "progressive" in kind else {}))
    expected = np.asarray(Image.open(io.BytesIO(contents)).convert("RGB"))
    np.testing.assert_array_equal(decode(contents), expected)


def test_takes_the_first_frame_of_an_animation():
    frames = [photograph().quantize(16), photograph(60, 90).rotate(180).quantize(16)]
    contents = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    np.testing.assert_array_equal(decode(contents), np.asarray(frames[0].convert("RGB")))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("byte_order", ["<", ">"])
def test_turns_phone_photographs_upright(orientation, byte_order):
    contents = encoded(photograph(), "JPEG", exif=exif_segment(orientation, byte_order))
    expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(contents))))
    np.testing.assert_array_equal(decode(contents), expected)


def exif_segment(orientation, byte_order):
    """Two entries, the camera's maker before the orientation, in either byte order."""
    entries = struct.pack(byte_order + "HHI4s", 0x010F, 2, 4, b"me\0\0")
    entries += struct.pack(byte_order + "HHIHH", 0x0112, 3, 1, orientation, 0)
    mark = b"II" if byte_order == "<" else b"MM"
    return b"Exif\0\0" + mark + struct.pack(byte_order + "HIH", 42, 8, 2) + entries + b"\0" * 4


@pytest.mark.parametrize("cut", range(6, 40, 3))
def test_a_broken_exif_segment_is_no_reason_to_fail(cut):
    contents = encoded(photograph(), "JPEG", exif=exif_segment(6, "<")[:cut])
    assert decode(contents).shape[-1] == 3


@pytest.mark.parametrize("short_side, ratio", [(64, 8), (100, 4), (128, 4), (129, 2), (300, 1), (600, 1)])
def test_a_large_jpeg_is_decoded_at_a_fraction_that_suffices(short_side, ratio):
    contents = encoded(photograph(512, 768), "JPEG")
    assert decoding.decode(tf.constant(contents), short_side).shape == [512 // ratio, 768 // ratio, 3]


def png_of_claimed_size(width, height):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")


SIXTEEN_BITS = Image.fromarray(np.arange(5400, dtype=np.uint16).reshape(60, 90))
REFUSED = {
    "nothing": (b"", "is empty"),
    "text": (b"These are words.", "is not an image"),
    "three bytes": (b"\xff\xd8\xff", "is not an image, or its header is broken"),
    "WebP": (encoded(photograph(), "WEBP"), "is a WebP file, which is not read; convert it to JPEG or PNG"),
    "TIFF": (encoded(photograph(), "TIFF"), "is a TIFF file, which is not read; convert it to JPEG or PNG"),
    "HEIC": (b"\0\0\0\x18ftypheic" + b"\0" * 50, "is a HEIC, AVIF or video file"),
    "16 bits": (encoded(SIXTEEN_BITS, "PNG"), "16 bits per channel, which is not read; convert it to 8 bits"),
    "truncated JPEG": (encoded(photograph(), "JPEG")[:900], "is a JPEG file that is truncated or damaged"),
    "truncated PNG": (encoded(photograph(), "PNG")[:500], "is a PNG file that is truncated or damaged"),
    "absurd size": (png_of_claimed_size(30_000, 30_000), "claims 30,000 × 30,000 pixels"),
    "no size": (png_of_claimed_size(0, 5), "is not an image, or its header is broken"),
    "1-bit BMP": (encoded(photograph().convert("1"), "BMP"), "is a BMP that is damaged, compressed or of an unusual"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refuses_and_says_why(kind):
    contents, why = REFUSED[kind]
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode(contents)
    assert why in decoding.why_refused(contents)


def test_reading_a_header_does_not_change_the_global_limit():
    limit = Image.MAX_IMAGE_PIXELS
    with decoding.header_of(png_of_claimed_size(30_000, 30_000)) as image:
        assert image.size == (30_000, 30_000)
        assert limit == Image.MAX_IMAGE_PIXELS


def test_an_absurd_size_is_refused_by_its_header():
    """Not by failing to allocate it: the message comes from the check before decoding."""
    with pytest.raises(tf.errors.InvalidArgumentError, match="absurd image size"):
        decode(png_of_claimed_size(30_000, 30_000))


def palette_bmp_with_a_false_header_size():
    contents = bytearray(encoded(photograph().quantize(100), "BMP"))
    contents[14] = 108
    return bytes(contents)


def with_data_broken(contents, at, by):
    return contents[:at] + by + contents[at + len(by) :]


GIF = encoded(photograph().quantize(64), "GIF")
DAMAGED = {
    "a GIF that breaks off within": GIF[: len(GIF) // 2] + b"\0\x3b",
    "a GIF of codes that no encoder writes": with_data_broken(GIF, len(GIF) // 2, b"\xff\xff\xff\xff"),
    "a GIF with another first byte of data": with_data_broken(GIF, 800, b"\xff"),
    "a BMP whose palette is read at the wrong place": palette_bmp_with_a_false_header_size(),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_refuses_what_would_be_decoded_to_something_else(kind):
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode(DAMAGED[kind])


@pytest.mark.parametrize("size", [(1, 1), (3, 2), (700, 900)])
def test_codes_of_gifs_of_all_kinds_are_valid(size):
    """Noise fills the table of strings again and again; one colour leaves it almost empty."""
    noise = np.random.default_rng(0).integers(0, 256, size)
    for colours in (2, 5, 256):
        for pixels in ((noise % colours).astype(np.uint8), np.zeros(size, np.uint8)):
            image = Image.frombytes("P", size[::-1], pixels.tobytes())
            image.putpalette(bytes(range(256)) * 3)
            contents = encoded(image, "GIF", optimize=False)
            np.testing.assert_array_equal(decode(contents), np.asarray(Image.open(io.BytesIO(contents)).convert("RGB")))


def test_only_the_first_frame_of_a_gif_is_decoded():
    """Each of a thousand frames would take as long as the first."""
    frame = photograph(900, 900).quantize(2)
    contents = encoded(frame, "GIF")
    block = contents[contents.index(b"\x2c") : -1]
    start = time.monotonic()
    decode(contents)
    alone = time.monotonic() - start
    start = time.monotonic()
    np.testing.assert_array_equal(decode(contents[:-1] + 1000 * block + b"\x3b"), decode(contents))
    assert time.monotonic() - start < 10 * alone + 1


def test_a_comment_that_speaks_of_exif_does_not_turn_the_image():
    contents = encoded(photograph(), "JPEG", comment=exif_segment(6, "<"))
    np.testing.assert_array_equal(decode(contents), np.asarray(Image.open(io.BytesIO(contents))))
    both = encoded(photograph(), "JPEG", comment=exif_segment(3, "<"), exif=exif_segment(6, ">"))
    np.testing.assert_array_equal(decode(both), np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(both)))))


def jpeg_of_scans(scans, side=2000):
    """A progressive JPEG whose last scan is repeated."""
    contents = encoded(Image.new("L", (side, side), 128), "JPEG", progressive=True)
    last = contents[contents.rindex(b"\xff\xda") : -2]
    return contents[:-2] + scans * last + b"\xff\xd9"


def test_a_jpeg_of_many_scans_counts_as_many_images():
    contents = jpeg_of_scans(4000)  # which would take a minute to decode
    with pytest.raises(tf.errors.InvalidArgumentError, match="absurd image size"):
        decode(contents)
    why = decoding.why_refused(contents)
    assert why.startswith("is a JPEG of 2,000 × 2,000 pixels in 4,0") and "too long to decode" in why
    assert decode(jpeg_of_scans(20)).shape == [2000, 2000, 3]


def test_a_small_jpeg_of_many_scans_is_no_plain_one():
    for scans, is_plain in ((0, True), (4000, False)):
        try:
            decoding.decode_plain_jpeg(tf.constant(jpeg_of_scans(scans, side=64)), 64)
        except tf.errors.InvalidArgumentError:
            assert not is_plain
        else:
            assert is_plain


def test_a_jpeg_that_may_have_to_be_turned_is_no_plain_one():
    plain = encoded(photograph(), "JPEG")
    np.testing.assert_array_equal(decoding.decode_plain_jpeg(tf.constant(plain), 96), decode(plain))
    exif = Image.Exif()
    exif[0x0112] = 6
    turn = exif.tobytes()
    behind_a_table = 22 + int.from_bytes(plain[22:24], "big")
    segment = b"\xff\xe1" + (len(turn) + 2).to_bytes(2, "big") + turn
    turned = plain[:behind_a_table] + segment + plain[behind_a_table:]
    assert ImageOps.exif_transpose(Image.open(io.BytesIO(turned))).size == (60, 90)
    with pytest.raises(tf.errors.InvalidArgumentError, match="not a plain JPEG"):
        decoding.decode_plain_jpeg(tf.constant(turned), 96)


def test_a_small_file_of_a_large_image_is_no_plain_jpeg():
    contents = encoded(Image.new("L", (20_000, 96), 128), "JPEG", progressive=True, quality=1)
    assert len(contents) < 96**2 // 2 + 4096
    with pytest.raises(tf.errors.InvalidArgumentError, match="to be shrunk"):
        decoding.decode_plain_jpeg(tf.constant(contents), 96)


@pytest.mark.parametrize(
    "contents, short_side, pixels",
    [
        (LOSSLESS["PNG"], None, 60 * 90),
        (LOSSLESS["BMP"], 20, 60 * 90),
        (LOSSLESS["GIF"], None, 2 * 60 * 90),
        (LOSSLESS["JPEG"], None, 60 * 90),
        (LOSSLESS["JPEG"], 20, 60 * 90 / 4),
    ],
)
def test_what_decoding_is_worth(contents, short_side, pixels):
    assert decoding.decoded_pixels(tf.constant(encoded(*contents)), short_side) == pixels
    assert decoding.decoded_pixels(tf.constant(b"no image"), short_side) == 0
