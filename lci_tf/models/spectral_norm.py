"""Layers whose kernel, as a matrix, has the largest singular value 1 (Miyato et al., 2018).

They reparametrise: what is applied is w/σ, while the variable w is what the optimiser made it. σ = uᵀWv comes from
power iteration, one step of it in every call with `training=True`; so a training step should call D once.
"""

import tensorflow as tf


class _Spectral(tf.keras.layers.Layer):
    def _add_weights(self, kernel_shape):
        units = kernel_shape[-1]
        # Under a policy of mixed precision both would be read in sixteen bits, in which σ is not worth having.
        self.kernel = self.add_weight(
            name="kernel", shape=kernel_shape, initializer="glorot_uniform", experimental_autocast=False
        )
        self.bias = self.add_weight(name="bias", shape=[units], initializer="zeros")
        # Every replica iterates on its own copy. The copies stay equal, since kernels are equal on all replicas, and
        # nobody waits for another.
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
    """[n, height, width, channels] to [n, height / strides, width / strides, filters], padding "same"."""

    def __init__(self, filters: int, kernel_size: int, strides: int = 1, **kwargs):
        super().__init__(**kwargs)
        self.filters, self.kernel_size, self.strides = filters, kernel_size, strides

    def build(self, input_shape):
        self._add_weights([self.kernel_size, self.kernel_size, input_shape[-1], self.filters])
        super().build(input_shape)

    def call(self, inputs, training=None):
        x = tf.nn.conv2d(inputs, self._normalised_kernel(training), self.strides, "SAME")
        return tf.nn.bias_add(x, self.bias)

    def get_config(self):
        own = {"filters": self.filters, "kernel_size": self.kernel_size, "strides": self.strides}
        return super().get_config() | own


class SpectralDense(_Spectral):
    """[n, channels] to [n, units]."""

    def __init__(self, units: int, **kwargs):
        super().__init__(**kwargs)
        self.units = units

    def build(self, input_shape):
        self._add_weights([input_shape[-1], self.units])
        super().build(input_shape)

    def call(self, inputs, training=None):
        return tf.nn.bias_add(tf.matmul(inputs, self._normalised_kernel(training)), self.bias)

    def get_config(self):
        return super().get_config() | {"units": self.units}


def _unit_vector(shape, dtype=None):
    return tf.math.l2_normalize(tf.random.normal(shape, dtype=dtype))
