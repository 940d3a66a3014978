"""Spectral normalisation: layers whose kernel, as a matrix, has largest singular value 1 (Miyato et al., 2018).

The layers apply w/σ, and leave the variable w as the optimiser set it. σ = uᵀWv comes from power iteration, of which
each call with `training=True` does one step; so a training step should call D only once.
"""

from typing import Any

import tensorflow as tf


class _Spectral(tf.keras.layers.Layer):
    def _add_weights(self, kernel_shape):
        units = kernel_shape[-1]
        # Without autocast: in mixed precision, kernel and u would be read in sixteen bits, too few for σ.
        self.kernel = self.add_weight(
            name="kernel", shape=kernel_shape, initializer="glorot_uniform", experimental_autocast=False
        )
        self.bias = self.add_weight(name="bias", shape=[units], initializer="zeros")
        # Each replica iterates on its own copy, without waiting for others. The copies stay equal, as the kernels are.
        self.u = self.add_weight(
            name="u",
            shape=[units],
            dtype=tf.float32,
            initializer=_unit_vector,
            trainable=False,
            experimental_autocast=False,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
        )

    def _normalised_kernel(self, training):
        kernel = tf.convert_to_tensor(self.kernel)
        matrix = tf.reshape(kernel, [-1, kernel.shape[-1]])  # Wᵀ
        constant = tf.stop_gradient(matrix)
        u = tf.convert_to_tensor(self.u)
        v = tf.math.l2_normalize(tf.linalg.matvec(constant, u))
        if training:
            u = tf.math.l2_normalize(tf.linalg.matvec(constant, v, transpose_a=True))
            self.u.assign(u)
        sigma = tf.tensordot(v, tf.linalg.matvec(matrix, u), axes=1)
        return tf.cast(kernel / sigma, self.compute_dtype)


class SpectralConv2D(_Spectral):
    """Convolution with padding "same": [n, height, width, channels] to [n, height/strides, width/strides, filters]."""

    def __init__(self, filters: int, kernel_size: int, strides: int = 1, **kwargs):
        super().__init__(**kwargs)
        self.filters, self.kernel_size, self.strides = filters, kernel_size, strides

    def build(self, input_shape: tf.TensorShape) -> None:
        self._add_weights([self.kernel_size, self.kernel_size, input_shape[-1], self.filters])
        super().build(input_shape)

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        x = tf.nn.conv2d(inputs, self._normalised_kernel(training), self.strides, "SAME")
        return tf.nn.bias_add(x, self.bias)

    def get_config(self) -> dict[str, Any]:
        own = {"filters": self.filters, "kernel_size": self.kernel_size, "strides": self.strides}
        return super().get_config() | own


class SpectralDense(_Spectral):
    """A fully connected layer: [n, channels] to [n, units]."""

    def __init__(self, units: int, **kwargs):
        super().__init__(**kwargs)
        self.units = units

    def build(self, input_shape: tf.TensorShape) -> None:
        self._add_weights([input_shape[-1], self.units])
        super().build(input_shape)

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        return tf.nn.bias_add(tf.matmul(inputs, self._normalised_kernel(training)), self.bias)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"units": self.units}


def _unit_vector(shape, dtype=None):
    return tf.math.l2_normalize(tf.random.normal(shape, dtype=dtype))
