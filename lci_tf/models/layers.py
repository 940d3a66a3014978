"""What the networks share: width, batch normalisation, the scaling of C's images."""

import tensorflow as tf

# ImageNet's, red, green, blue. The authors subtract them from what C sees; the paper does not speak of it.
CHANNEL_MEANS = (123.68, 116.779, 103.939)


def scaled(units: int, width: float) -> int:
    """`width` times the filters or units of a table, to a multiple of 8; at width 1 those of the table."""
    return max(8, round(units * width / 8) * 8)


def batch_norm(name: str, sync_bn: bool = False) -> tf.keras.layers.Layer:
    """Batch normalisation with the authors' momentum and epsilon, in C and F; over all replicas if `sync_bn`."""
    return tf.keras.layers.BatchNormalization(momentum=0.975, epsilon=1e-3, synchronized=sync_bn, name=name)


def rescaling(name: str) -> tf.keras.layers.Layer:
    """Images in [-1, 1] to grey levels minus their mean on ImageNet."""
    # In float32 under any policy: sixteen bits are too few to shift by the mean in.
    offset = [127.5 - mean for mean in CHANNEL_MEANS]
    return tf.keras.layers.Rescaling(127.5, offset, dtype="float32", name=name)
