"""F, the inpainter: an autoencoder of patches (supplement, table of F)."""

import tensorflow as tf

from lci_tf.models.layers import batch_norm, scaled


def inpainter(patch_size: int, deep: bool = False, width: float = 1.0, sync_bn: bool = False) -> tf.keras.Model:
    """Patches [n, patch_size, patch_size, 3] in [-1, 1] to patches of the same shape, float32 in (-1, 1).

    Args:
      patch_size: side of a patch, divisible by 4, by 8 if `deep`.
      deep: with the layers in parentheses in the table, as on ImageNet.
      width: multiplies all filters but the last three.
      sync_bn: batch normalisation over all replicas.
    """
    encoder = [96, 192, 384] if deep else [96, 192]
    decoder = [192, 96, 48] if deep else [96, 48]

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
    return tf.keras.layers.LeakyReLU(alpha=0.1, name=f"{name}_leaky_relu")
