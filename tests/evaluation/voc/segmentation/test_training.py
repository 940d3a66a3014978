import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from lci_tf.config.voc_protocols import SEGMENTATION
from lci_tf.evaluation.voc import trunk
from lci_tf.evaluation.voc.segmentation import masks, sources
from lci_tf.evaluation.voc.segmentation.loading import Loader
from lci_tf.evaluation.voc.segmentation.masks import VOID
from lci_tf.evaluation.voc.segmentation.network import FCN
from lci_tf.evaluation.voc.segmentation.training import Training, losses
from lci_tf.runs import Run, trained

PROTOCOL = dataclasses.replace(SEGMENTATION["fcn32s"], iterations=4, batch_size=3, learning_rate=0.02, padding=100)


def fully_convolutional(backbone="alexnet", padding=PROTOCOL.padding):
    return FCN(trunk.build(trained.random(backbone, width=0.05), 227), 3, padding)


@pytest.fixture(scope="module")
def fcn():
    """With scores that are not all zero, so that there is a gradient below them."""
    network = fully_convolutional()
    kernel = network.variables[-2]
    kernel.assign(tf.random.stateless_normal(kernel.shape, [0, 0]))
    return network


def test_losses_by_hand():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=[2, 5, 6, 3]).astype(np.float32)
    truth = rng.integers(0, 3, [2, 5, 6]).astype(np.uint8)
    truth[0, 2:], truth[1] = VOID, VOID
    of_image = scores[0, :2].reshape(-1, 3).astype(np.float64)
    labels = truth[0, :2].ravel()
    likely = np.exp(of_image) / np.exp(of_image).sum(axis=1, keepdims=True)
    expected = -np.log(likely[np.arange(12), labels]).mean(), (of_image.argmax(axis=1) == labels).mean()
    loss, right = losses(scores, truth)
    np.testing.assert_allclose(loss, [expected[0], 0.0], rtol=1e-5)
    np.testing.assert_allclose(right, [expected[1], 0.0], rtol=1e-5)


def test_what_is_void_teaches_nothing():
    scores = tf.Variable(tf.random.stateless_normal([1, 4, 4, 3], [0, 0]))
    truth = np.array([[[0, 1, 2, VOID]] * 4], np.uint8)
    with tf.GradientTape() as tape:
        loss = losses(scores, truth)[0]
    gradient = tape.gradient(loss, scores).numpy()[0]
    assert np.abs(gradient[:, 3]).max() == 0 < np.abs(gradient[:, :3]).min()


def test_fc6_as_windows_is_a_convolution(fcn):
    layers = {layer.name: layer for layer in fcn.scorer.layers}
    x = tf.random.stateless_normal([2, 8, 9, layers["fc6"].kernel.shape[0] // 36], [0, 1])
    kernel = tf.reshape(layers["fc6"].kernel, [6, 6, x.shape[-1], -1])
    expected = tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "VALID") + layers["fc6"].bias)
    np.testing.assert_allclose(layers["fc6"](layers["windows"](x)), expected, atol=1e-5)


def test_an_image_alone_sees_what_c_sees_of_it(fcn):
    """Of one that fc6 takes whole, without padding: fc7 is that of the trunk."""
    made = trunk.build(trained.random("alexnet", width=0.05), 227)
    image = tf.random.stateless_uniform([1, 227, 227, 3], [0, 0], -1, 1)
    network = FCN(made, 3, PROTOCOL.padding)
    found = tf.keras.Model(network.scorer.input, network.scorer.get_layer("score").input)(image)
    np.testing.assert_allclose(found[:, 0, 0], made.whole(image), rtol=1e-3, atol=1e-5)


def test_scores_are_as_large_as_the_image_and_begin_at_zero():
    images = np.random.default_rng(0).integers(0, 256, [2, 61, 83, 3]).astype(np.uint8)
    scores = fully_convolutional("alexnet_small", 120)(images)
    np.testing.assert_array_equal(scores, np.zeros([2, 61, 83, 3]))


def test_together_is_as_if_each_image_went_alone(fcn, voc):
    """Gradients, too, by definition: of the mean over the images of the mean over the pixels of each."""
    numbers = {"names": ("a", "b", "c"), "table": masks.table_of((0, 1, 3), ())}
    source = dataclasses.replace(sources.find_voc("2007", voc, train="all")[0], **numbers)
    protocol, loader = dataclasses.replace(PROTOCOL, dropout=0.0), Loader(source)
    examples = next(loader.training(0, 3))
    assert len({example.image.shape for example in examples}) == 2
    together, loss, _ = Training(fcn, loader, protocol, at_once=8).mean_gradients(examples)
    alone, loss_alone, _ = Training(fcn, loader, protocol, at_once=1).mean_gradients(examples)
    with tf.GradientTape() as tape:
        total = sum(
            tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(
                    example.mask[example.mask != VOID].astype(np.int32),
                    fcn(example.image[np.newaxis])[0][example.mask != VOID],
                )
            )
            for example in examples
        )
        expected_loss = total / 3
    expected = tape.gradient(expected_loss, fcn.variables)
    for found in (loss, loss_alone):
        np.testing.assert_allclose(found, expected_loss, rtol=1e-4)
    for a, b, c in zip(together, alone, expected, strict=True):
        scale = max(float(tf.reduce_max(tf.abs(c))), 1e-6)
        np.testing.assert_allclose(a / scale, c / scale, atol=1e-3)
        np.testing.assert_allclose(b / scale, c / scale, atol=1e-3)


def test_a_training_that_was_interrupted_goes_on_as_if_it_was_not(folder, tmp_path):
    source, _ = sources.find_folder(folder)

    def train(where, iterations):
        network = fully_convolutional()
        protocol = dataclasses.replace(PROTOCOL, iterations=iterations)
        training = Training(network, Loader(source), protocol, at_once=3)
        training.run(Run(tmp_path / where))
        return network, Run(tmp_path / where).metrics()

    train("twice", 1)
    twice, _ = train("twice", 3)
    once, metrics = train("once", 3)
    for a, b in zip(twice.variables, once.variables, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    assert [record["step"] for record in metrics] == [1, 2, 3]
    assert metrics[0]["loss"] == pytest.approx(np.log(3), rel=1e-3)  # of three classes, by scores that begin at zero
