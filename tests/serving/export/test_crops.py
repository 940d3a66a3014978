"""How much a request may take while its images are decoded."""

import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from lci_tf.serving.export import crops

# 16 images of 16 megapixels, 48 MB each, asked for by a process that has a thread for each.
PEAK = """
import io, pathlib, re, sys
from PIL import Image
import tensorflow as tf
from lci_tf.serving.export import crops

tf.config.threading.set_inter_op_parallelism_threads(16)
tf.config.threading.set_intra_op_parallelism_threads(1)

def peak():
    return int(re.search(r"VmHWM:\\s*(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) / 1024

def png(side):
    file = io.BytesIO()
    Image.new("RGB", (side, side)).save(file, "PNG", compress_level=1)
    return file.getvalue()

load = tf.function(lambda contents: crops.of_bytes(contents, 32, 48)[1])
small, large = png(40), png(4000)
assert load(tf.constant([small] * 16)).numpy().all()
before = peak()
assert load(tf.constant([large] * 16)).numpy().all()
print(peak() - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the peak of memory is Linux's")  # noqa: PTH110
def test_large_images_are_not_decoded_all_at_once():
    result = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) < 400  # MiB: four of them, and what decoding takes beside


LIMITS = crops.Limits(image_pixels=100 * 100)


def test_images_of_all_sizes_come_out_in_their_places():
    sides = (100, 10, 101, 50, 25, 26, 51)  # for one, four or sixteen at once, and too large
    rng = np.random.default_rng(0)
    contents = [tf.io.encode_png(np.full([side, side, 3], rng.integers(256), np.uint8)) for side in sides]
    found, valid = crops.of_bytes(tf.stack(contents), 8, 8, limits=LIMITS)
    assert valid.numpy().tolist() == [side <= 100 for side in sides]
    for content, cropped, is_valid in zip(contents, found[:, 0], valid, strict=True):
        expected = crops.images.scale(tf.io.decode_png(content)[:8, :8]) if is_valid else tf.zeros([8, 8, 3])
        np.testing.assert_allclose(cropped, expected, atol=1e-6)


def test_a_request_of_more_pixels_than_allowed_fails_before_they_are_decoded():
    """Sixteen PNGs of 196 megapixels fit into 400 kB. One that is too large by itself is unreadable, and is free."""
    png = tf.io.encode_png(tf.zeros([100, 100, 3], tf.uint8))
    larger = tf.io.encode_png(tf.zeros([101, 100, 3], tf.uint8))
    limits = LIMITS._replace(request_bytes=2 * 100 * 100 * 3)
    _, valid = crops.of_bytes(tf.stack([png, larger, png]), 8, 8, limits=limits)
    assert valid.numpy().tolist() == [True, False, True]
    with pytest.raises(tf.errors.InvalidArgumentError, match="would be 0 MB of pixels, and a request may have 0; ask"):
        crops.of_bytes(tf.stack([png] * 3), 8, 8, limits=limits)
    # These are to be decoded at an eighth of their size, so that each is worth 1/64 of it.
    jpeg = tf.io.encode_jpeg(tf.zeros([100, 100, 3], tf.uint8))
    assert crops.of_bytes(tf.stack([jpeg] * 100), 8, 8, limits=limits)[1].numpy().all()
