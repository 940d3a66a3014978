import numpy as np
import pytest
import tensorflow as tf

from lci_tf import models
from lci_tf.config import presets

# The paper's table of F: kind, side of the kernel, stride, filters.
SHALLOW = [("conv", 3, 1, 48), ("conv", 4, 2, 96), ("conv", 4, 2, 192),
           ("deconv", 4, 2, 96), ("deconv", 4, 2, 48), ("deconv", 3, 1, 3)]  # fmt: skip
DEEP = [*SHALLOW[:3], ("conv", 4, 2, 384), ("deconv", 4, 2, 192), *SHALLOW[3:]]


def learned(model):
    return [layer for layer in model.layers if hasattr(layer, "kernel")]


@pytest.mark.parametrize(("halvings", "table"), [(2, SHALLOW), (3, DEEP)])
def test_weights_are_those_of_the_table(halvings, table):
    model = models.inpainter(48, halvings=halvings)
    kernels, channels, parameters = [], 3, 0
    for i, (kind, side, stride, filters) in enumerate(table):
        ends = (channels, filters) if kind == "conv" else (filters, channels)
        kernels.append(((side, side, *ends), (stride, stride)))
        has_norm = 0 < i < len(table) - 1
        parameters += side * side * channels * filters + filters * (2 if has_norm else 1)
        channels = filters
    assert [(tuple(layer.kernel.shape), layer.strides) for layer in learned(model)] == kernels
    assert sum(np.prod(v.shape) for v in model.trainable_weights) == parameters


@pytest.mark.parametrize("halvings", [2, 3])
@pytest.mark.parametrize("side", [48, 72, 96])  # of crops of 64, 96 and 128 pixels
def test_patches_keep_their_size(side, halvings):
    made = models.inpainter(side, halvings, width=0.1)(tf.zeros([2, side, side, 3]))
    assert made.shape == [2, side, side, 3]


@pytest.mark.parametrize(("halvings", "table"), [(2, SHALLOW), (3, DEEP)])
def test_equals_elementary_operations(halvings, table):
    model = models.inpainter(16, halvings=halvings, width=0.1)
    rng = np.random.default_rng(0)
    for weight in model.weights:
        draw = rng.uniform(0.5, 2, weight.shape) if "variance" in weight.name else rng.normal(0, 0.2, weight.shape)
        weight.assign(draw)
    patches = rng.uniform(-1, 1, [2, 16, 16, 3]).astype(np.float32)
    x = patches
    weights = iter([layer.get_weights() for layer in model.layers if layer.weights])
    for i, (kind, _, stride, _) in enumerate(table):
        kernel, *bias = next(weights)
        if kind == "conv":
            x = tf.nn.conv2d(x, kernel, stride, "SAME").numpy()
        else:
            shape = [2, x.shape[1] * stride, x.shape[2] * stride, kernel.shape[2]]
            x = tf.nn.conv2d_transpose(x, kernel, shape, stride, "SAME").numpy()
        if i in (0, len(table) - 1):
            x = x + bias[0]
        else:
            gamma, beta, mean, variance = next(weights)
            x = (x - mean) / np.sqrt(variance + 1e-3) * gamma + beta
        x = np.tanh(x) if i == len(table) - 1 else np.where(x > 0, x, 0.1 * x)
    np.testing.assert_allclose(model(patches), x, atol=1e-4)
    assert next(weights, None) is None


def out_of_sight(patch_size, halvings, border):
    """How many pixels of the hole depend on none of the border."""
    x = patches = tf.keras.Input([patch_size, patch_size, 1])
    for layer in learned(models.inpainter(patch_size, halvings, width=0.1)):
        same = type(layer)(1, layer.kernel_size, layer.strides, "same", use_bias=False, kernel_initializer="ones")
        x = same(x)  # all weights positive: whatever can be reached is above 0
    erased = np.ones([1, patch_size, patch_size, 1], np.float32)
    erased[:, border:-border, border:-border] = 0
    return int((tf.keras.Model(patches, x)(erased).numpy() == 0).sum())


@pytest.mark.parametrize("dataset", ["stl10", "celeb_a", "imagenet2012", "folder"])
@pytest.mark.parametrize("crop_size", [None, 32, 48, 96, 224])
def test_presets_have_an_inpainter_that_sees_across_the_hole(dataset, crop_size):
    settings = presets.resolve(dataset, {"crop_size": crop_size} if crop_size else {})
    assert out_of_sight(settings.patch_size, settings.inpainter_halvings, settings.border) == 0


def test_the_papers_inpainter_does_not_see_across_the_hole():
    assert out_of_sight(48, 2, border=2) == 24**2


def test_names():
    names = [layer.name for layer in learned(models.inpainter(48, halvings=3, width=0.1))]
    assert names == ["conv1", "conv2", "conv3", "conv4", "deconv1", "deconv2", "deconv3", "deconv4"]


def test_width():
    model = models.inpainter(48, width=0.5)
    assert [layer.filters for layer in learned(model)] == [24, 48, 96, 48, 24, 3]


@pytest.mark.parametrize("sync_bn", [False, True])
def test_replicas_share_statistics_if_asked(two_replicas, sync_bn):
    single = models.inpainter(8, width=0.1)
    with two_replicas.scope():
        mirrored = models.inpainter(8, width=0.1, sync_bn=sync_bn)
    mirrored.set_weights(single.get_weights())
    patches = np.random.default_rng(0).normal(size=[6, 8, 8, 3]).astype(np.float32)
    patches[3:] += 1  # so that the halves have statistics of their own
    halves = two_replicas.experimental_distribute_values_from_function(
        lambda context: tf.constant(patches[3 * context.replica_id_in_sync_group :][:3])
    )
    run = tf.function(lambda: two_replicas.run(lambda x: mirrored(x, training=True), [halves]))
    together = np.concatenate(two_replicas.experimental_local_results(run()))
    assert np.allclose(together, single(patches, training=True), atol=1e-3) == sync_bn


def test_mixed_precision(mixed_precision):
    model = models.inpainter(16, halvings=3, width=0.1)
    assert model.get_layer("conv2").compute_dtype == mixed_precision
    assert model(tf.zeros([2, 16, 16, 3]), training=True).dtype == tf.float32
