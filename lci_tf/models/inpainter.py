"""F, the inpainter: a convolutional autoencoder of patches (table of F in the supplement)."""

import tensorflow as tf

from lci_tf.models.layers import LeakyReLU, batch_norm, scaled


def inpainter(patch_size: int, halvings: int = 2, width: float = 1.0, sync_bn: bool = False) -> tf.keras.Model:
    """Builds F, from patches [n, patch_size, patch_size, 3] in [-1, 1] to float32 patches of that shape in (-1, 1).

    Args:
      patch_size: side of the patches, divisible by 2 to the power of `halvings`.
      halvings: how often resolution is halved: 2 as in the table, 3 with its layers in parentheses, or more. With 2, an
        output depends on pixels up to 10 pixels away, and each halving more doubles that: it limits the size of the
        hole that F can fill sensibly.
      width: factor for the numbers of filters, except the last three.
      sync_bn: compute batch-norm statistics over all replicas.
    """
    encoder = [96, 192] + [384] * (halvings - 2)  # the table ends with the first 384
    decoder = [48, *encoder[:-1]][::-1]

    def half_or_double(layer, filters, name, x):
        x = layer(scaled(filters, width), 4, 2, "same", use_bias=False, name=name)(x)
        return _leaky_relu(name)(batch_norm(f"{name}_bn", sync_bn)(x))

    patches = tf.keras.Input([patch_size, patch_size, 3], name="patches")
    x = tf.keras.layers.Conv2D(scaled(48, width), 3, padding="same", name="conv1")(patches)
    x = _leaky_relu("conv1")(x)
    for i, filters in enumerate(encoder, start=2):
        x = half_or_double(tf.keras.layers.Conv2D, filters, f"conv{i}", x)
    for i, filters in enumerate(decoder, start=1):
        x = half_or_double(tf.keras.layers.Conv2DTranspose, filters, f"deconv{i}", x)
    name = f"deconv{len(decoder) + 1}"
    x = tf.keras.layers.Conv2DTranspose(3, 3, padding="same", name=name)(x)
    x = tf.keras.layers.Activation("tanh", dtype="float32", name=f"{name}_tanh")(x)
    return tf.keras.Model(patches, x, name="inpainter")


def _leaky_relu(name):
    return LeakyReLU(alpha=0.1, name=f"{name}_leaky_relu")
