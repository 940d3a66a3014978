import numpy as np
import pytest
import tensorflow as tf

from lci_tf import models
from lci_tf.models import alexnet
from lci_tf.models.alexnet import TwoStreamConv2D

# Krizhevsky et al., 2012: name, kernel, stride. conv2, conv4 and conv5 see one stream's channels only.
CONVOLUTIONS = [
    ("conv1", (11, 11, 3, 96), 4),
    ("conv2", (5, 5, 48, 256), 1),
    ("conv3", (3, 3, 256, 384), 1),
    ("conv4", (3, 3, 192, 384), 1),
    ("conv5", (3, 3, 192, 256), 1),
]


@pytest.fixture(scope="module", params=[("alexnet_small", 64, 4096), ("alexnet", 128, 9216)], ids=lambda p: p[0])
def model_and_units(request):
    """C as on STL-10 and as on ImageNet, and how many units its conv5 has there."""
    backbone, crop_size, units = request.param
    return models.classifier(backbone, classes=6, crop_size=crop_size), units


def test_weights_are_those_of_the_table(model_and_units):
    model, units = model_and_units
    features = model.get_layer("features")
    for name, kernel, stride in CONVOLUTIONS:
        layer = features.get_layer(name)
        assert tuple(layer.kernel.shape) == kernel
        assert layer.strides == (stride, stride)
        assert layer.groups == 1  # there are no gradients of others on a CPU
    dense = {"fc1": (units, 4096), "fc2": (4096, 4096), "fc3": (4096, 6)}
    for name, kernel in dense.items():
        assert tuple(model.get_layer(name).kernel.shape) == kernel
    kernels = sum(np.prod(kernel) for _, kernel, _ in CONVOLUTIONS) + sum(np.prod(k) for k in dense.values())
    channels = 96 + 256 + 384 + 384 + 256 + 4096 + 4096
    assert sum(np.prod(v.shape) for v in model.trainable_weights) == kernels + 2 * channels + 6
    assert sum(np.prod(v.shape) for v in model.non_trainable_weights) == 2 * channels


def test_names_in_order():
    model = models.classifier("alexnet_small", classes=2, crop_size=16, width=0.01)
    expected = []
    for layer in ("conv1", "conv2", "conv3", "conv4", "conv5", "fc1", "fc2"):
        expected += [f"{layer}/kernel:0", f"{layer}_bn/gamma:0", f"{layer}_bn/beta:0"]
    assert [v.name for v in model.trainable_weights] == [*expected, "fc3/kernel:0", "fc3/bias:0"]


def test_initial_weights(model_and_units):
    model, _ = model_and_units
    drawn = [(model.get_layer("features").get_layer(name).kernel.numpy(), 0.01) for name, _, _ in CONVOLUTIONS]
    drawn += [(model.get_layer(name).kernel.numpy(), 0.005) for name in ("fc1", "fc2", "fc3")]
    for kernel, stddev in drawn:
        # Cut at two standard deviations; what is left of the first is 0.88 of it.
        np.testing.assert_allclose(np.abs(kernel).max(), 2 * stddev, rtol=0.02)
        np.testing.assert_allclose(kernel.std(), 0.88 * stddev, rtol=0.02)
    fc1, fc2, _ = (kernel for kernel, stddev in drawn if stddev == 0.005)
    assert (fc1[:4096] != fc2).mean() > 0.99


def reference(model, images, padding):
    """AlexNet in elementary operations, on the weights of `model`."""
    features = model.get_layer("features")

    def bn_relu(x, layer):
        gamma, beta, mean, variance = layer.get_weights()
        return np.maximum(0, (x - mean) / np.sqrt(variance + 1e-3) * gamma + beta)

    def conv(x, name, stride=1, streams=1, padding="SAME"):
        kernel = features.get_layer(name).get_weights()[0]
        outputs = []
        for stream in range(streams):
            n_in, n_out = x.shape[-1] // streams, kernel.shape[-1] // streams
            part = x[..., stream * n_in :][..., :n_in]
            outputs.append(tf.nn.conv2d(part, kernel[..., stream * n_out :][..., :n_out], stride, padding))
        return bn_relu(np.concatenate(outputs, axis=-1), features.get_layer(f"{name}_bn"))

    def pool(x):
        return tf.nn.max_pool2d(x, 3, 2, padding).numpy()

    maps = {}
    maps["conv1"] = conv((images + 1) / 2 * 255 - [123.68, 116.779, 103.939], "conv1", 4, padding=padding)
    maps["conv2"] = conv(pool(maps["conv1"]), "conv2", streams=2)
    maps["conv3"] = conv(pool(maps["conv2"]), "conv3")
    maps["conv4"] = conv(maps["conv3"], "conv4", streams=2)
    maps["conv5"] = conv(maps["conv4"], "conv5", streams=2)
    x = maps["conv5"].reshape([len(images), -1])
    for name in ("fc1", "fc2"):
        x = bn_relu(x @ model.get_layer(name).get_weights()[0], model.get_layer(f"{name}_bn"))
    kernel, bias = model.get_layer("fc3").get_weights()
    return maps | {"logits": x @ kernel + bias}


@pytest.mark.parametrize(("backbone", "padding"), [("alexnet_small", "SAME"), ("alexnet", "VALID")])
def test_equals_elementary_operations(backbone, padding):
    model = models.classifier(backbone, classes=3, crop_size=64, width=0.1)
    rng = np.random.default_rng(0)
    for weight in model.weights:
        draw = rng.uniform(0.5, 2, weight.shape) if "variance" in weight.name else rng.normal(0, 0.1, weight.shape)
        weight.assign(draw)
    images = rng.uniform(-1, 1, [2, 64, 64, 3])
    ours, expected = model(tf.constant(images, tf.float32)), reference(model, images, padding)
    assert ours.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(ours[name], values, rtol=1e-3, atol=1e-3 * values.std(), err_msg=name)


def test_streams_do_not_see_each_other():
    layer = TwoStreamConv2D(6, 3, padding="same")
    images = np.random.default_rng(0).normal(size=[1, 5, 5, 4]).astype(np.float32)
    before = layer(images).numpy()
    images[..., 2:] += 1
    after = layer(images).numpy()
    np.testing.assert_array_equal(before[..., :3], after[..., :3])
    assert (np.abs(before - after)[..., 3:] > 1e-4).all()


def test_streams_have_gradients():
    layer = TwoStreamConv2D(6, 3, padding="same", use_bias=False)
    images = tf.random.stateless_normal([2, 5, 5, 4], [0, 0])
    with tf.GradientTape() as tape:
        tape.watch(images)
        loss = tf.reduce_sum(layer(images) ** 2)
    for gradient in tape.gradient(loss, [images, layer.kernel]):
        assert (np.abs(gradient) > 0).all()


def test_smallest_image():
    assert models.classifier("alexnet", 2, crop_size=35, width=0.01).output["conv5"].shape[1:] == (1, 1, 8)
    with pytest.raises(ValueError, match="pool2"):
        models.alexnet.features("valid", width=0.01)(tf.keras.Input([34, 34, 3]))


def test_too_small_an_image_is_refused(refusal):
    assert "--crop_size=34" in refusal(models.classifier, "alexnet", 2, 34)


def gradients(layer, images, training):
    with tf.GradientTape() as tape:
        tape.watch(images)
        maps = layer(images, training=training)
        loss = tf.reduce_sum(tf.sin(3 * maps))
    return maps, *tape.gradient(loss, [images, *layer.trainable_variables])


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("height", [35, 61, 62, 63, 64])
def test_the_quick_gradient_at_the_images_is_that_of_the_convolution(padding, height):
    layer = alexnet.BlockConv2D(8, 11, strides=4, padding=padding, activation="relu", bias_initializer="ones")
    images = tf.random.stateless_normal([2, height, 40, 3], [0, height])
    plain = gradients(layer, images, False)
    for found in (gradients(layer, images, True), tf.function(gradients)(layer, images, True)):
        for quick, expected in zip(found, plain, strict=True):
            np.testing.assert_allclose(quick, expected, atol=2e-4)


@pytest.mark.parametrize("options", [{"strides": (4, 2)}, {"kernel_size": (11, 5)}, {"strides": 1, "dilation_rate": 2}])
def test_unusual_convolutions_take_the_plain_way(options):
    layer = alexnet.BlockConv2D(4, **{"kernel_size": 11, "strides": 4, "padding": "same", **options})
    images = tf.random.stateless_normal([2, 33, 40, 3], [0, 1])
    for quick, expected in zip(gradients(layer, images, True), gradients(layer, images, False), strict=True):
        np.testing.assert_allclose(quick, expected, atol=2e-4)
