import numpy as np
import pytest
import tensorflow as tf

from lci_tf.models.spectral_norm import SpectralConv2D, SpectralDense


def unit(vector):
    return vector / np.linalg.norm(vector)


def power_iteration(matrix, u):
    """(u, v, σ) after one step, for a matrix [inputs, outputs]."""
    v = unit(matrix @ u)
    u = unit(matrix.T @ v)
    return u, v, v @ matrix @ u


@pytest.fixture(params=["conv", "dense"])
def layer_and_inputs(request):
    rng = np.random.default_rng(0)
    if request.param == "conv":
        layer, shape = SpectralConv2D(8, 3, strides=2), [2, 6, 6, 4]
    else:
        layer, shape = SpectralDense(8), [2, 12]
    inputs = rng.normal(size=shape).astype(np.float32)
    layer.build(inputs.shape)
    for weight in (layer.kernel, layer.bias):
        weight.assign(rng.normal(0, 3, weight.shape))
    return layer, inputs


def as_matrix(layer):
    return layer.kernel.numpy().astype(np.float64).reshape([-1, layer.kernel.shape[-1]])


def unnormalised(layer, inputs):
    """What a layer without normalisation and bias would give."""
    if isinstance(layer, SpectralConv2D):
        return tf.nn.conv2d(inputs, layer.kernel, layer.strides, "SAME")
    return inputs @ layer.kernel


def expected_outputs(layer, inputs, sigma):
    return unnormalised(layer, inputs) / sigma + layer.bias


def test_a_training_call_makes_one_power_iteration(layer_and_inputs):
    layer, inputs = layer_and_inputs
    u, _, sigma = power_iteration(as_matrix(layer), layer.u.numpy().astype(np.float64))
    outputs = layer(inputs, training=True)
    np.testing.assert_allclose(layer.u, u, atol=1e-5)
    np.testing.assert_allclose(outputs, expected_outputs(layer, inputs, sigma), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("training", [False, None])
def test_other_calls_make_none(layer_and_inputs, training):
    layer, inputs = layer_and_inputs
    layer(inputs, training=True)
    u = layer.u.numpy()
    sigma = np.linalg.norm(as_matrix(layer) @ u)
    outputs = layer(inputs, training=training)
    np.testing.assert_array_equal(layer.u, u)
    np.testing.assert_allclose(outputs, expected_outputs(layer, inputs, sigma), rtol=1e-4, atol=1e-4)


def test_u_starts_as_a_unit_vector(layer_and_inputs):
    np.testing.assert_allclose(np.linalg.norm(layer_and_inputs[0].u), 1, rtol=1e-5)


@pytest.mark.parametrize(("layer", "shape"), [(SpectralConv2D(64, 4), [1, 8, 8, 64]), (SpectralDense(30), [2, 40])])
def test_the_largest_singular_value_becomes_one(layer, shape):
    inputs = tf.random.stateless_normal(shape, [0, 0])
    layer(inputs)
    # Not as they were drawn: of some random kernels the two largest are too close for fifty iterations.
    rng = np.random.default_rng(0)
    layer.kernel.assign(rng.normal(size=layer.kernel.shape))
    layer.u.assign(unit(rng.normal(size=layer.u.shape)))
    kernel = layer.kernel.numpy()
    call = tf.function(lambda: layer(inputs, training=True))
    for _ in range(50):
        outputs = call()
    np.testing.assert_array_equal(layer.kernel, kernel)
    # The kernel as it was applied, from what came out.
    applied = kernel * (np.linalg.norm(outputs) / np.linalg.norm(unnormalised(layer, inputs)))
    largest = np.linalg.svd(applied.reshape([-1, kernel.shape[-1]]), compute_uv=False)[0]
    assert largest == pytest.approx(1, rel=0.02)


def test_gradient_equals_numerical_differences(layer_and_inputs):
    layer, inputs = layer_and_inputs
    u, v, _ = power_iteration(as_matrix(layer), layer.u.numpy().astype(np.float64))
    kernel = layer.kernel.numpy().astype(np.float64)
    with tf.GradientTape() as tape:
        outputs = layer(inputs, training=True)
        cotangent = tf.constant(np.random.default_rng(1).normal(size=outputs.shape), tf.float32)
        loss = tf.reduce_sum(outputs * cotangent)
    gradient = tape.gradient(loss, layer.kernel).numpy()

    # The loss is linear in w/σ; its slope there is that of a layer without normalisation.
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(unnormalised(layer, inputs) * cotangent)
    slope = tape.gradient(loss, layer.kernel).numpy().astype(np.float64)

    def loss_of(w):  # u and v are held fast
        return np.sum(slope * w) / (v @ w.reshape([len(v), -1]) @ u)

    numerical = np.zeros_like(kernel)
    for index in np.ndindex(*kernel.shape):
        step = np.zeros_like(kernel)
        step[index] = 1e-4
        numerical[index] = (loss_of(kernel + step) - loss_of(kernel - step)) / 2e-4
    np.testing.assert_allclose(gradient, numerical, rtol=1e-3, atol=1e-4)


def train_on_two_replicas(strategy, layer, optimizer, steps):
    """Steps in which every replica has inputs of its own."""

    def step(inputs):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(inputs, training=True) ** 3)
        optimizer.minimize(loss, layer.trainable_weights, tape)

    run = tf.function(lambda inputs: strategy.run(step, [inputs]))
    for i in range(steps):
        inputs = strategy.experimental_distribute_values_from_function(
            lambda context, i=i: tf.random.stateless_normal([2, 6, 6, 4], [i, context.replica_id_in_sync_group])
        )
        run(inputs)


def built(strategy):
    with strategy.scope():
        layer = SpectralConv2D(8, 3)
        layer.build([None, 6, 6, 4])
        optimizer = tf.keras.optimizers.SGD(0.01)
        optimizer.build(layer.trainable_weights)
    return layer, optimizer


def test_u_is_equal_on_all_replicas(two_replicas):
    layer, optimizer = built(two_replicas)
    copies = two_replicas.experimental_local_results(layer.u)
    assert len(copies) == 2
    np.testing.assert_array_equal(*copies)
    before, kernel = copies[0].numpy(), layer.kernel.numpy()
    train_on_two_replicas(two_replicas, layer, optimizer, steps=1)
    first, second = two_replicas.experimental_local_results(layer.u)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, power_iteration(kernel.reshape([-1, 8]), before)[0], atol=1e-5)
    train_on_two_replicas(two_replicas, layer, optimizer, steps=3)
    first, second = two_replicas.experimental_local_results(layer.u)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(layer.u, first)


def test_u_survives_a_checkpoint(two_replicas, tmp_path):
    layer, optimizer = built(two_replicas)
    train_on_two_replicas(two_replicas, layer, optimizer, steps=2)
    path = tf.train.Checkpoint(layer=layer).save(str(tmp_path / "checkpoint"))

    alone = SpectralConv2D(8, 3)
    alone.build([None, 6, 6, 4])
    tf.train.Checkpoint(layer=alone).restore(path).assert_consumed()
    np.testing.assert_array_equal(alone.u, layer.u)

    again, _ = built(two_replicas)
    tf.train.Checkpoint(layer=again).restore(path).assert_consumed()
    for copy in two_replicas.experimental_local_results(again.u):
        np.testing.assert_array_equal(copy, alone.u)


def test_sigma_is_in_float32_under_mixed_precision(mixed_precision):
    inputs = tf.random.stateless_normal([2, 6, 6, 4], [0, 0])
    exact, mixed = SpectralConv2D(8, 3, dtype="float32"), SpectralConv2D(8, 3)
    exact(inputs)
    assert mixed(inputs).dtype.name == mixed_precision
    mixed.set_weights(exact.get_weights())
    for _ in range(3):
        exact(inputs, training=True)
        mixed(inputs, training=True)
    np.testing.assert_array_equal(mixed.u, exact.u)


def test_can_be_made_again_from_its_config():
    layer = SpectralConv2D(8, 3, strides=2, name="conv1")
    again = SpectralConv2D.from_config(layer.get_config())
    assert again.compute_output_shape([None, 6, 6, 4]) == [None, 3, 3, 8]
    assert SpectralDense.from_config(SpectralDense(5).get_config()).units == 5
