import math

import numpy as np
import pytest
import tensorflow as tf

from lci_tf import models
from lci_tf.config import probe_protocols
from lci_tf.evaluation.probe.frozen import FrozenFeatures, pool_to_units
from lci_tf.runs import trained
from lci_tf.runs.trained import FeatureModel


def protocol(name="stl10", crop_size=32, **given):
    return probe_protocols.resolve(name, {"crop_size": crop_size, **given})


def pooled_in_numpy(feature_map, side, padding):
    """Means over windows; what a window has beyond the edge does not count."""
    size = feature_map.shape[0]
    count = math.ceil(size / side) if padding == "SAME" else size // side
    first = -((count * side - size) // 2) if padding == "SAME" else 0
    windows = [slice(max(0, first + i * side), first + (i + 1) * side) for i in range(count)]
    return np.array([[feature_map[rows, columns].mean(axis=(0, 1)) for columns in windows] for rows in windows])


# Of AlexNet with VALID padding, of 227 pixels: side and channels of the map, the authors' windows, units.
AUTHORS = {
    "conv1": (55, 96, 6, "SAME", 9600),
    "conv2": (27, 256, 4, "VALID", 9216),
    "conv3": (13, 384, 3, "SAME", 9600),
    "conv4": (13, 384, 3, "SAME", 9600),
    "conv5": (13, 256, 2, "VALID", 9216),
}


@pytest.mark.parametrize("layer", AUTHORS)
def test_the_authors_windows(layer):
    size, channels, side, padding, units = AUTHORS[layer]
    maps = np.random.default_rng(0).random([1, size, size, channels], np.float32)
    pooled = pool_to_units(layer, tf.constant(maps))
    assert math.prod(pooled.shape[1:]) == units
    np.testing.assert_allclose(pooled[0], pooled_in_numpy(maps[0], side, padding), rtol=1e-5)


def test_alexnet_has_those_maps():
    maps = models.find_backbone("alexnet").features().compute_output_shape([None, 227, 227, 3])
    assert {layer: tuple(shape[2:]) for layer, shape in maps.items()} == {k: v[:2] for k, v in AUTHORS.items()}


@pytest.mark.parametrize(("size", "channels"), [(30, 96), (14, 256), (57, 96), (64, 64)])
def test_maps_of_other_sizes_have_about_as_many_units(size, channels):
    pooled = pool_to_units("conv1", tf.ones([1, size, size, channels]))
    assert abs(math.prod(pooled.shape[1:]) - 9000) < 1000
    np.testing.assert_allclose(pooled, 1.0, rtol=1e-5)


def test_small_maps_are_taken_whole():
    maps = tf.random.stateless_uniform([1, 2, 2, 64], [0, 0])
    np.testing.assert_allclose(pool_to_units("conv1", maps), maps, rtol=1e-6)


@pytest.fixture(scope="module")
def model():
    return trained.random("alexnet_small", width=0.1)


@pytest.mark.parametrize(("given", "side"), [({}, 8), ({"grid": 2}, 2)])
def test_units_are_those_of_the_maps(model, given, side):
    features = FrozenFeatures(model.only(["conv1"]), protocol(**given))
    images = tf.random.stateless_uniform([3, 32, 32, 3], [0, 0], -1.0, 1.0)
    maps = model.maps(images, training=False)["conv1"].numpy()
    expected = maps.reshape(3, side, 8 // side, side, 8 // side, -1).mean(axis=(2, 4)).reshape(3, -1)
    assert features.units == {"conv1": expected.shape[1]}
    for compute in (features, tf.function(features)):
        np.testing.assert_allclose(compute(images)["conv1"], expected, rtol=1e-4, atol=1e-4)


def test_a_network_that_does_not_tell_its_shapes():
    kernel = tf.random.stateless_normal([3, 3, 3, 2], [0, 0])

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, None])])
    def maps(images):
        return tf.nn.conv2d(images, kernel, 2, "SAME")

    foreign = FeatureModel(lambda images, training: {"out": maps(images)}, ("out",), {})
    features = FrozenFeatures(foreign, protocol())
    assert tf.function(features)(tf.zeros([5, 32, 32, 3]))["out"].shape == [5, 16 * 16 * 2]


def test_crops_that_the_network_does_not_take(refusal):
    inputs = tf.keras.Input([16, 16, 3])
    fixed = FeatureModel(tf.keras.Model(inputs, {"out": tf.keras.layers.Conv2D(2, 3)(inputs)}), ("out",), {}, 16)
    assert refusal(FrozenFeatures, fixed, protocol()) == (
        "--crop_size=32: the network does not accept images of this size; it was made for 16 pixels"
    )
    alexnet = trained.random("alexnet", width=0.1)
    assert refusal(FrozenFeatures, alexnet, protocol(crop_size=20)).startswith(
        "--crop_size=20: the network does not accept"
    )
