import numpy as np
import pytest
import tensorflow as tf

from lci_tf import models

# The paper's table of D: side of the kernel, stride, filters.
SHALLOW = [(3, 1, 64), (4, 2, 64), (3, 1, 128), (4, 2, 128), (3, 1, 256)]
DEEP = [*SHALLOW, (4, 2, 256), (3, 1, 512)]


def learned(model):
    return [layer for layer in model.layers if hasattr(layer, "kernel")]


@pytest.mark.parametrize(("halvings", "table"), [(2, SHALLOW), (3, DEEP)])
def test_weights_are_those_of_the_table(halvings, table):
    model = models.patch_discriminator(48, halvings=halvings)
    kernels, channels = [], 6
    for side, stride, filters in table:
        kernels.append(((side, side, channels, filters), stride))
        channels = filters
    *convolutions, dense = learned(model)
    assert [(tuple(layer.kernel.shape), layer.strides) for layer in convolutions] == kernels
    assert tuple(dense.kernel.shape) == (channels, 1)
    parameters = sum(np.prod(kernel) + kernel[-1] for kernel, _ in kernels) + channels + 1
    assert sum(np.prod(v.shape) for v in model.trainable_weights) == parameters
    assert [v.name for v in model.non_trainable_weights] == [f"{layer.name}/u:0" for layer in learned(model)]


@pytest.mark.parametrize("halvings", [2, 3])
@pytest.mark.parametrize("side", [48, 72, 96])  # of crops of 64, 96 and 128 pixels
def test_a_decision_for_every_pair(side, halvings):
    model = models.patch_discriminator(side, halvings=halvings, width=0.1)
    assert model(tf.zeros([2, side, side, 6])).shape == [2, 1]
    *_, last = [layer for layer in model.layers if len(layer.output.shape) == 4]
    assert last.output.shape[1] == last.output.shape[2] == side // (2**halvings)


@pytest.mark.parametrize("pooling", ["average", "sum"])
@pytest.mark.parametrize(("halvings", "table"), [(2, SHALLOW), (3, DEEP)])
def test_equals_elementary_operations(halvings, table, pooling):
    model = models.patch_discriminator(16, halvings=halvings, width=0.1, pooling=pooling)
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    pairs = rng.uniform(-1, 1, [3, 16, 16, 6]).astype(np.float32)
    model(pairs, training=True)
    x = pairs
    *convolutions, dense = learned(model)
    for layer, (_, stride, _) in zip(convolutions, table, strict=True):
        x = tf.nn.conv2d(x, normalised(layer), stride, "SAME") + layer.bias
        x = np.where(x > 0, x, 0.1 * x)
    x = x.mean(axis=(1, 2)) if pooling == "average" else x.sum(axis=(1, 2))
    x = x @ normalised(dense) + dense.bias.numpy()
    assert x.shape == (3, 1)
    np.testing.assert_allclose(model(pairs), x, rtol=1e-4, atol=1e-4 * x.std())


def normalised(layer):
    kernel = layer.kernel.numpy()
    return kernel / np.linalg.norm(kernel.reshape([-1, kernel.shape[-1]]) @ layer.u.numpy())


def test_every_layer_has_norm_one_after_fifty_steps_on_fixed_weights():
    model = models.patch_discriminator(8, halvings=3)
    rng = np.random.default_rng(4)  # of other kernels the two largest may be so close that it takes longer
    for layer in learned(model):
        layer.kernel.assign(rng.uniform(-0.1, 0.1, layer.kernel.shape))
        layer.u.assign(rng.normal(size=layer.u.shape))
    step = tf.function(lambda pairs: model(pairs, training=True))
    for _ in range(50):
        step(tf.zeros([1, 8, 8, 6]))
    for layer in learned(model):
        applied = normalised(layer).reshape([-1, layer.kernel.shape[-1]])
        assert np.linalg.svd(applied, compute_uv=False)[0] == pytest.approx(1, rel=0.02), layer.name


def test_unknown_pooling_is_refused():
    with pytest.raises(ValueError, match="pooling='max'"):
        models.patch_discriminator(16, pooling="max")


def test_mixed_precision(mixed_precision):
    model = models.patch_discriminator(16, halvings=3, width=0.1)
    assert model.get_layer("conv2").output.dtype.name == mixed_precision
    assert model(tf.zeros([2, 16, 16, 6]), training=True).dtype == tf.float32
