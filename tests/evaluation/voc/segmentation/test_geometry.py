"""Scores lie where they belong: measured against FCN's own transposed convolution and crop, and by images."""

import numpy as np
import pytest
import tensorflow as tf

from lci_tf import models
from lci_tf.evaluation.voc.segmentation import geometry
from lci_tf.evaluation.voc.segmentation.geometry import Geometry
from lci_tf.models.layers import CHANNEL_MEANS

PADDING = 100


def fully_convolutional(backbone):
    """The layers of a backbone with one or two channels each, so that kernels can be set by hand."""
    features = models.find_backbone(backbone).features(width=0.05)
    x = features.output["conv5"]
    if backbone != "resnet34":
        x = tf.keras.layers.MaxPooling2D(3, 2, "valid" if backbone == "alexnet" else "same")(x)
        x = tf.keras.layers.Conv2D(1, 6)(x)
    return tf.keras.Model(features.input, x)


@pytest.fixture(scope="module")
def networks():
    return {backbone: fully_convolutional(backbone) for backbone in ("alexnet", "alexnet_small")}


def test_the_offset_of_fcn_s_alexnet(networks):
    """18, as in the crop layer of voc-fcn-alexnet."""
    found = geometry.measure(networks["alexnet"])
    assert found == Geometry(stride=32, first=113.0, size=227)
    assert (2 * 32 - 1 - 1) / 2 + PADDING - found.first == 18


def passing_on(backbone):
    """AlexNet's windows, in layers that pass the middle pixel of an odd window on, and the mean of fc6's 6×6."""

    def conv(size, strides=1, padding="same"):
        kernel = np.zeros([size, size, 2, 2], np.float32)
        middle = slice(size // 2, size // 2 + 1) if size % 2 else slice(0, size)
        kernel[middle, middle] = np.eye(2) / (1 if size % 2 else size**2)
        layer = tf.keras.layers.Conv2D(2, size, strides, padding, use_bias=False)
        layer.build([None, None, None, 2])
        layer.set_weights([kernel])
        return layer

    padding = "valid" if backbone == "alexnet" else "same"
    pool = lambda: tf.keras.layers.MaxPooling2D(3, 2, padding)  # noqa: E731
    layers = [conv(11, 4, padding), pool(), conv(5), pool(), conv(3), conv(3), conv(3), pool(), conv(6, 1, "valid")]
    return tf.keras.Sequential([tf.keras.Input([None, None, 2]), *layers])


def pad(images, found):
    """With nothing around."""
    behind = [int(found.padded(side, PADDING)) - side - PADDING for side in images.shape[1:3]]
    return np.pad(images, [[0, 0], [PADDING, behind[0]], [PADDING, behind[1]], [0, 0]])


@pytest.mark.parametrize("backbone", ["alexnet", "alexnet_small"])
@pytest.mark.parametrize("size", [(330, 420), (349, 401)])
def test_a_pixel_comes_back_where_it_was(networks, backbone, size):
    found, network = geometry.measure(networks[backbone]), passing_on(backbone)
    # In the middle of the sight of a pixel of pool5: there it is in one window of each pool.
    row, column = (int(found.first - PADDING + (cell - 2.5) * found.stride) for cell in (7, 9))
    image = np.zeros([1, *size, 2], np.float32)
    image[0, row, column] = 1
    shown = geometry.upsample(network(pad(image, found)), tf.constant(size), found, PADDING)[0, ..., 0].numpy()
    assert shown.max() > 0 and shown[row, column] == pytest.approx(shown.max())
    for line, at in ((shown.sum(axis=1), row), (shown.sum(axis=0), column)):
        reach = min(at, len(line) - 1 - at)
        around = line[at - reach : at + reach + 1]
        np.testing.assert_allclose(around, around[::-1], atol=1e-5)  # as much before it as behind
        assert around[0] == 0  # all of it is there


@pytest.mark.parametrize("backbone", ["alexnet", "alexnet_small"])
@pytest.mark.parametrize("size", [(180, 240), (190, 333)])
def test_places_come_back(networks, backbone, size):
    """Of an image in which every pixel says in which column it is.

    Pools take the largest of three, the last; in the negative of the image it is the first, and between them lies the
    middle.
    """
    found, network = geometry.measure(networks[backbone]), passing_on(backbone)
    height, width = (int(found.padded(side, PADDING)) for side in size)
    columns = np.arange(width, dtype=np.float32) - PADDING
    image = np.broadcast_to(np.stack([columns, -columns], axis=-1) + 1000, [1, height, width, 2])
    shown = geometry.upsample(network(image), tf.constant(size), found, PADDING)[0].numpy()
    place = (shown[..., 0] - shown[..., 1]) / 2
    np.testing.assert_allclose(place[size[0] // 2, 90:-90], np.arange(size[1])[90:-90], atol=1e-2)


def test_upsampling_is_fcn_s_transposed_convolution_and_crop():
    found, size = Geometry(32, 113.0, 227), (180, 250)
    height, width = (int(found.padded(side, PADDING)) for side in size)
    h, w = ((side - 227) // 32 + 1 for side in (height, width))
    scores = np.random.default_rng(0).normal(size=[2, h, w, 3]).astype(np.float32)
    line = 1 - np.abs(np.arange(63) - 31) / 32  # what FCN fills its kernel with
    kernel = np.einsum("i,j,kl->ijkl", line, line, np.eye(3)).astype(np.float32)
    whole = tf.nn.conv2d_transpose(scores, kernel, [2, 32 * (h - 1) + 63, 32 * (w - 1) + 63, 3], 32, "VALID")
    assert all(have >= 18 + side for have, side in zip(whole.shape[1:3], size, strict=True))
    expected = whole[:, 18 : 18 + size[0], 18 : 18 + size[1]]
    np.testing.assert_allclose(geometry.upsample(scores, tf.constant(size), found, PADDING), expected, atol=1e-5)


@pytest.mark.parametrize("found", [Geometry(32, 113.0, 227), Geometry(32, 110.0, 192), Geometry(32, 17.0, 32)])
def test_scores_lie_all_over_the_image(found):
    for side in range(1, 600):
        padded = int(found.padded(side, PADDING))
        assert (padded - found.size) % found.stride == 0 and padded >= max(found.size, side + 2 * PADDING)
        assert padded < max(found.size, side + 2 * PADDING) + found.stride
        last = found.first + padded - found.size
        assert found.first - PADDING < found.stride and last - PADDING > side - 1 - found.stride


def test_padding_is_what_c_takes_for_nothing():
    images = np.random.default_rng(0).uniform(-1, 1, [2, 50, 70, 3]).astype(np.float32)
    padded = geometry.pad(images, Geometry(32, 113.0, 227), PADDING).numpy()
    assert padded.shape == (2, 259, 291, 3)
    np.testing.assert_allclose(padded[:, 100:150, 100:170], images, atol=1e-6)
    around = np.delete(padded.reshape(2, 259, -1), np.s_[100:150], axis=1).reshape(-1, 3)
    np.testing.assert_allclose(127.5 * (around + 1), np.broadcast_to(CHANNEL_MEANS, around.shape), atol=1e-3)


def test_how_much_padding_it_takes():
    """With one pixel less, the first pixels of an image get nothing from any score."""
    for found in (Geometry(32, 113.0, 227), Geometry(32, 110.0, 192)):
        least = found.least_padding
        for padding, covered in ((least, True), (least - 1, False)):
            shown = geometry.upsample(np.ones([1, 3, 3, 1]), tf.constant([40, 40]), found, padding)
            assert (shown[0, 0, 0, 0] > 0) == covered
    assert Geometry(32, 17.0, 32).least_padding == 0


@pytest.mark.slow
def test_resnet_lies_between_its_branches():
    found = geometry.measure(fully_convolutional("resnet34"))
    # Along its 3×3 convolutions 31, along the shortcuts 3.
    assert found == Geometry(stride=32, first=17.0, size=32)
