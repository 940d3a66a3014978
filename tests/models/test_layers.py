import numpy as np
import pytest
import tensorflow as tf

from lci_tf.models.layers import LeakyReLU


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
def test_leaky_relu_and_its_gradient(dtype):
    x = tf.cast(tf.random.stateless_normal([4, 5, 6], [0, 0]), dtype)
    found = []
    for activate in (LeakyReLU(alpha=0.1, dtype=dtype), lambda x: tf.nn.leaky_relu(x, 0.1)):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = activate(x)
            loss = tf.reduce_sum(y * y)
        found.append((y, tape.gradient(loss, x)))
    for ours, expected in zip(*found, strict=True):
        np.testing.assert_allclose(tf.cast(ours, tf.float32), tf.cast(expected, tf.float32), rtol=1e-2, atol=1e-6)
