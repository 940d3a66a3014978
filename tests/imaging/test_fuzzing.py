"""Damaged files, with Pillow as the judge: what it refuses has no features, and what both read is the same image."""

import contextlib
import io
import resource
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps

from lci_tf.imaging import decoding

MEMORY = 4 * 2**30  # bytes of addresses, of which TensorFlow alone reserves more than half


def photograph(height=45, width=61):
    y, x = np.mgrid[:height, :width]
    channels = [128 + 100 * np.sin(x / 9 + k) * np.cos(y / 7 - k) for k in range(3)]
    return Image.fromarray(np.stack(channels, axis=-1).astype(np.uint8))


def encoded(image, format, **options):
    contents = io.BytesIO()
    image.save(contents, format, **options)
    return contents.getvalue()


def samples():
    image, exif = photograph(), Image.Exif()
    exif[0x0112] = 6
    frames = [image.quantize(16), image.rotate(180).quantize(16)]
    return {
        "JPEG": encoded(image, "JPEG"),
        "JPEG with EXIF and a comment": encoded(image, "JPEG", exif=exif, comment=b"Exif\0\0" + exif.tobytes()),
        "progressive JPEG": encoded(image, "JPEG", progressive=True),
        "grey JPEG": encoded(image.convert("L"), "JPEG"),
        "PNG": encoded(image, "PNG"),
        "palette PNG": encoded(image.quantize(32), "PNG"),
        "PNG with alpha": encoded(image.convert("RGBA"), "PNG"),
        "GIF": encoded(image.quantize(64), "GIF"),
        "animated GIF": encoded(frames[0], "GIF", save_all=True, append_images=frames[1:]),
        "palette BMP": encoded(image.quantize(100), "BMP"),
        "grey BMP": encoded(image.convert("L"), "BMP"),
        "BMP": encoded(image, "BMP"),
        "BMP with alpha": encoded(image.convert("RGBA"), "BMP"),
    }


def mutated(contents, draws):
    """A few bytes changed, mostly in the header; a piece cut off, left out or repeated."""
    octets, kind = bytearray(contents), draws.integers(6)
    within = 64 if kind < 2 else len(octets)
    if kind < 4:
        for _ in range(draws.integers(1, 4)):
            octets[draws.integers(within)] = draws.choice([0, 1, 0x7F, 0x80, 0xFF, draws.integers(256)])
        return bytes(octets)
    first, second = sorted(draws.integers(len(octets), size=2))
    if kind == 4:
        return bytes(octets[:second])
    return bytes(octets[:first] + octets[second:]) if draws.random() < 0.5 else bytes(octets[:second] + octets[first:])


def by_pillow(contents):
    """Pixels, or None of what it refuses."""
    with contextlib.suppress(Exception), Image.open(io.BytesIO(contents)) as image:
        if image.format in ("JPEG", "MPO"):
            image.load()
            image = ImageOps.exif_transpose(image)
        return np.asarray(image.convert("RGB"))
    return None


def difference(pixels, expected, name):
    """In grey levels, the largest; of JPEGs the mean, for what is missing of one is guessed, by every library anew."""
    off = np.abs(pixels.astype(int) - expected)
    return off.mean() if "JPEG" in name else off.max()


def fuzz(seeds):
    """(sample, seed, what is wrong), and how many of the mutated files were decoded."""
    decode = tf.function(decoding.decode, input_signature=[tf.TensorSpec([], tf.string)])
    originals, decoded = samples(), 0
    for seed in seeds:
        for name, contents in originals.items():
            damaged = mutated(contents, np.random.default_rng(seed))
            try:
                pixels = decode(damaged).numpy()
            except tf.errors.InvalidArgumentError:
                continue
            decoded += 1
            with contextlib.suppress(tf.errors.InvalidArgumentError):  # the short way, of which most is not
                if not np.array_equal(decoding.decode_plain_jpeg(tf.constant(damaged), 96), pixels):
                    yield name, seed, "another image in the short way"
            expected = by_pillow(damaged)
            if expected is None:
                yield name, seed, "Pillow refuses it"
            elif pixels.shape != expected.shape:
                yield name, seed, f"of shape {pixels.shape}, not {expected.shape}"
            elif (off := difference(pixels, expected, name)) > 4:
                yield name, seed, f"off by {off:.1f}"
    print(f"decoded {decoded}")


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


@pytest.mark.parametrize("seeds", [30, pytest.param(400, marks=pytest.mark.slow)])
def test_damaged_files_are_refused_or_read_as_pillow_reads_them(seeds):
    """In a process of its own, whose memory is limited: a damaged header may claim any size."""
    command = [sys.executable, __file__, str(seeds)]
    found = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit_memory)
    *wrong, last = found.stdout.splitlines() or [found.stderr[-2000:]]
    assert found.returncode == 0 and wrong == [], found.stderr[-2000:]
    # Enough are decoded for the comparison to mean something.
    assert int(last.removeprefix("decoded ")) > seeds * len(samples()) // 5


if __name__ == "__main__":
    for found in fuzz(range(int(sys.argv[1]))):
        print(*found, sep=": ")
