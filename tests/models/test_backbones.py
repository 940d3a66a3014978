"""What holds for C on any backbone."""

import numpy as np
import pytest
import tensorflow as tf

from lci_tf import models
from lci_tf.config.names import BACKBONES

# Sides of conv1…conv5.
SIDES = {
    "alexnet_small": {64: (16, 8, 4, 4, 4), 96: (24, 12, 6, 6, 6), 128: (32, 16, 8, 8, 8)},
    "alexnet": {64: (14, 6, 2, 2, 2), 96: (22, 10, 4, 4, 4), 128: (30, 14, 6, 6, 6)},
    "resnet34": {64: (32, 16, 8, 4, 2), 96: (48, 24, 12, 6, 3), 128: (64, 32, 16, 8, 4)},
}
MAPS = ("conv1", "conv2", "conv3", "conv4", "conv5")


@pytest.fixture(scope="module", params=BACKBONES)
def narrow(request):
    """A tenth of C: its name and the model."""
    return request.param, models.classifier(request.param, classes=6, crop_size=64, width=0.1)


@pytest.mark.parametrize("size", [64, 96, 128])
def test_sizes_of_the_maps(narrow, size):
    backbone, model = narrow
    maps = model.get_layer("features")(tf.zeros([1, size, size, 3]))
    assert tuple(maps) == MAPS
    assert tuple(m.shape[1] for m in maps.values()) == SIDES[backbone][size]
    assert all(m.shape[1] == m.shape[2] for m in maps.values())


@pytest.mark.parametrize("size", [96, 128])
def test_c_at_other_sizes(narrow, size):
    backbone, _ = narrow
    model = models.classifier(backbone, classes=6, crop_size=size, width=0.1)
    assert model(tf.zeros([2, size, size, 3]))["logits"].shape == [2, 6]
    if backbone != "resnet34":
        assert model.get_layer("fc1").kernel.shape[0] == SIDES[backbone][size][-1] ** 2 * 24


def test_features_are_those_of_the_classifier(narrow):
    _, model = narrow
    images = tf.random.stateless_uniform([2, 64, 64, 3], [0, 0], -1, 1)
    outputs, maps = model(images), model.get_layer("features")(images)
    assert outputs.keys() == {*MAPS, "logits"}
    assert outputs["logits"].shape == [2, 6]
    for name in MAPS:
        np.testing.assert_array_equal(outputs[name], maps[name])
        assert np.min(maps[name]) == 0 < np.max(maps[name])  # after ReLU


def test_images_become_grey_levels_minus_means(narrow):
    features = narrow[1].get_layer("features")
    levels = tf.keras.Model(features.input, features.get_layer("rescaling").output)
    images = tf.constant([[[[-1.0, -1, -1], [0, 0, 0], [1, 1, 1]]]])
    means = np.array([123.68, 116.779, 103.939])
    np.testing.assert_allclose(levels(images)[0, 0], [0 - means, 127.5 - means, 255 - means], rtol=1e-5)


@pytest.mark.parametrize("sync_bn", [False, True])
def test_batch_normalisation(narrow, sync_bn):
    model = models.classifier(narrow[0], classes=6, crop_size=64, width=0.1, sync_bn=sync_bn) if sync_bn else narrow[1]
    kernels = [v for v in model.trainable_weights if "kernel" in v.name]
    norms = [m for m in model.submodules if isinstance(m, tf.keras.layers.BatchNormalization)]
    assert len(norms) == len(kernels) - 1  # all but the last
    assert {(n.momentum, n.epsilon, n.center, n.scale, n.synchronized) for n in norms} == {
        (0.975, 1e-3, True, True, sync_bn)
    }
    assert [v.shape for v in model.trainable_weights if "bias" in v.name] == [[6]]


def test_every_weight_learns(narrow):
    _, model = narrow
    images = tf.random.stateless_uniform([4, 64, 64, 3], [0, 0], -1, 1)
    with tf.GradientTape() as tape:
        logits = model(images, training=True)["logits"]
        loss = tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy([0, 1, 2, 3], logits, from_logits=True))
    for weight, gradient in zip(model.trainable_weights, tape.gradient(loss, model.trainable_weights), strict=True):
        assert np.abs(gradient).max() > 0, weight.name


def test_width_halves_filters_and_units():
    model = models.classifier("alexnet_small", classes=6, crop_size=64, width=0.5)
    assert [model.output[name].shape[-1] for name in MAPS] == [48, 128, 192, 192, 128]
    assert model.get_layer("fc1").kernel.shape == [2048, 2048]
    assert model.output["logits"].shape == [None, 6]


def test_width_rounds_to_eight(narrow):
    backbone, model = narrow
    expected = [8, 8, 16, 24, 48] if backbone == "resnet34" else [8, 24, 40, 40, 24]
    assert [model.output[name].shape[-1] for name in MAPS] == expected


@pytest.mark.parametrize("backbone", BACKBONES)
def test_mixed_precision(backbone, mixed_precision):
    model = models.classifier(backbone, classes=6, crop_size=64, width=0.1)
    outputs = model(tf.random.stateless_uniform([4, 64, 64, 3], [0, 0], -1, 1), training=True)
    assert {outputs[name].dtype.name for name in MAPS} == {mixed_precision}
    assert outputs["logits"].dtype == tf.float32
    assert np.isfinite(outputs["logits"]).all()
    assert {v.dtype.base_dtype for v in model.weights} == {tf.float32}


def test_unknown_backbone_is_refused(refusal):
    assert "--backbone=vgg: unknown" in refusal(models.classifier, "vgg", 6, 64)
