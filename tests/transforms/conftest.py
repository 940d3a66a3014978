import numpy as np
import pytest
import tensorflow as tf


@pytest.fixture
def everywhere():
    """Calls a function of tensors eagerly, in a graph whose batch size is open, and inside tf.data; returns the first.

    What the three give may differ by `atol`, for rounding.
    """

    def call(function, *arguments, atol=0.0):
        arguments = [tf.convert_to_tensor(a) for a in arguments]
        eagerly = tf.convert_to_tensor(function(*arguments))
        specs = [tf.TensorSpec([None, *a.shape[1:]], a.dtype) for a in arguments]
        in_graph = tf.function(function, input_signature=specs)(*arguments)
        in_dataset = next(iter(tf.data.Dataset.from_tensors(tuple(arguments)).map(function)))
        for other in (in_graph, in_dataset):
            assert other.shape == eagerly.shape and other.dtype == eagerly.dtype
            np.testing.assert_allclose(other, eagerly, rtol=0, atol=atol)
        return eagerly.numpy()

    return call


@pytest.fixture
def assert_adjoint():
    """Whether the gradient of a linear function is its adjoint: ⟨A x, y⟩ = ⟨x, Aᵀ y⟩ for any y."""

    def check(function, x):
        x = tf.convert_to_tensor(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            result = function(x)
        y = np.random.default_rng(1).normal(size=result.shape).astype(np.float32)
        back = tape.gradient(result, x, tf.constant(y))
        there = np.vdot(result.numpy().astype(np.float64), y)
        np.testing.assert_allclose(np.vdot(x.numpy().astype(np.float64), back), there, rtol=1e-5)

    return check
