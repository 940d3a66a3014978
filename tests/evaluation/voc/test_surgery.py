import numpy as np
import pytest
import tensorflow as tf

from lci_tf import models
from lci_tf.evaluation.voc.surgery import absorbed


def disturbed(network):
    """Batch normalisation that has seen something, so that a mistake in any of its numbers shows."""
    rng = np.random.default_rng(0)
    for norm in (m for m in network.submodules if isinstance(m, tf.keras.layers.BatchNormalization)):
        gamma, beta, mean, variance = norm.get_weights()
        mean, variance = mean + rng.normal(size=mean.shape), variance * rng.uniform(0.5, 4, variance.shape)
        norm.set_weights([rng.uniform(0.5, 2, gamma.shape), rng.normal(size=beta.shape), mean, variance])
    return network


def norms_left(network):
    return [m.name for m in network.submodules if isinstance(m, tf.keras.layers.BatchNormalization)]


@pytest.mark.parametrize("backbone", ["alexnet", "alexnet_small", "resnet34"])
def test_the_function_stays_and_the_batch_normalisation_goes(backbone):
    """All of C: two streams, and the fully connected layers too."""
    tf.keras.utils.set_random_seed(0)
    network = disturbed(models.classifier(backbone, 6, crop_size=67, width=0.1))
    images = tf.random.uniform([4, 67, 67, 3], -1, 1)
    before, copy = network(images, training=False), absorbed(network)
    after = copy(images, training=True)  # there is nothing left that would notice
    assert not norms_left(copy) and norms_left(network)
    assert before.keys() == after.keys() == {"conv1", "conv2", "conv3", "conv4", "conv5", "logits"}
    for name, expected in before.items():
        difference = np.abs(after[name] - expected).max() / np.abs(expected).max()
        assert difference < 1e-4 and np.abs(expected).max() > 0.01, name


def test_the_numbers_are_those_of_the_formula():
    network = tf.keras.Sequential([tf.keras.layers.Conv2D(1, 1, input_shape=(1, 1, 1), name="conv"),
                                   tf.keras.layers.BatchNormalization(epsilon=0.0, name="bn")])  # fmt: skip
    network.get_layer("conv").set_weights([np.full([1, 1, 1, 1], 3.0), np.array([2.0])])
    network.get_layer("bn").set_weights(list(np.array([[5.0], [7.0], [1.0], [4.0]])))  # scale, offset, mean, variance
    kernel, bias = absorbed(network).get_layer("conv").get_weights()
    assert kernel.item() == 3 * 5 / 2 and bias.item() == (2 - 1) * 5 / 2 + 7


def test_batch_normalisation_that_no_weights_come_before_stays_as_it_is():
    """After an activation, after a layer with two followers, and after one whose output is asked for."""
    images = tf.keras.Input([8, 8, 3])
    x = tf.keras.layers.Conv2D(4, 3, activation="relu", name="active")(images)
    x = tf.keras.layers.BatchNormalization(name="bn1")(x)
    x = shared = tf.keras.layers.Conv2D(4, 3, name="shared")(x)
    x = tf.keras.layers.BatchNormalization(name="bn2")(x) + shared
    x = asked = tf.keras.layers.Conv2D(4, 3, name="asked")(x)
    x = tf.keras.layers.BatchNormalization(name="bn3")(x)
    network = disturbed(tf.keras.Model(images, [asked, x]))
    copy, batch = absorbed(network), tf.random.stateless_uniform([2, 8, 8, 3], [0, 0])
    assert sorted(norms_left(copy)) == ["bn1", "bn2", "bn3"]
    for expected, got in zip(network(batch, training=False), copy(batch, training=False), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    assert not copy.get_layer("bn1").trainable
