"""What the networks share: scaling by width, batch normalisation, and the rescaling of C's input."""

import tensorflow as tf

# Means of ImageNet's red, green and blue. The authors' code subtracts them from C's input; the paper does not say so.
CHANNEL_MEANS = (123.68, 116.779, 103.939)


def scaled(units: int, width: float) -> int:
    """`width` times a number of filters or units, rounded to a multiple of 8, at least 8."""
    return max(8, round(units * width / 8) * 8)


def batch_norm(name: str, sync_bn: bool = False) -> tf.keras.layers.Layer:
    """The batch normalisation of C and F, with the authors' momentum and epsilon; over all replicas if `sync_bn`."""
    return tf.keras.layers.BatchNormalization(momentum=0.975, epsilon=1e-3, synchronized=sync_bn, name=name)


class LeakyReLU(tf.keras.layers.LeakyReLU):
    """Leaky ReLU whose gradient is computed from its output, which has the sign of its input.

    So the input need not be kept, and TensorFlow can compute a convolution, its bias and this in one.
    """

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        alpha = float(self.alpha)

        @tf.custom_gradient
        def activated(x):
            y = tf.nn.leaky_relu(x, alpha)
            return y, lambda upstream: tf.raw_ops.LeakyReluGrad(gradients=upstream, features=y, alpha=alpha)

        return activated(inputs)


def rescaling(name: str) -> tf.keras.layers.Layer:
    """A layer that turns images in [-1, 1] into 0…255 minus ImageNet's channel means."""
    # Always in float32, as sixteen bits are too few for subtracting the means.
    offset = [127.5 - mean for mean in CHANNEL_MEANS]
    return tf.keras.layers.Rescaling(127.5, offset, dtype="float32", name=name)
