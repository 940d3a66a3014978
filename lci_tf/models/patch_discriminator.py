"""D, the patch discriminator: tells real from inpainted patches (table of D in the supplement)."""

import tensorflow as tf

from lci_tf.models.layers import LeakyReLU, scaled
from lci_tf.models.spectral_norm import SpectralConv2D, SpectralDense


def patch_discriminator(
    patch_size: int, halvings: int = 2, width: float = 1.0, pooling: str = "average"
) -> tf.keras.Model:
    """Builds D, from pairs of patches [n, patch_size, patch_size, 6] to scores, high for real, float32 [n, 1].

    Args:
      patch_size: side of the patches, in pixels.
      halvings: 2, or 3 with the layers in parentheses in the table, as on ImageNet.
      width: factor for the numbers of filters.
      pooling: how to pool the last map: "average" as in the paper, or "sum" as in the authors' code.
    """
    if pooling not in ("average", "sum"):
        raise ValueError(f"pooling={pooling!r}: unknown; expected 'average' or 'sum'")
    filters = [64, 64, 128, 128, 256] + ([256, 512] if halvings == 3 else [])

    pairs = tf.keras.Input([patch_size, patch_size, 6], name="pairs")
    x = pairs
    for i, f in enumerate(filters):
        kernel_size, strides = (3, 1) if i % 2 == 0 else (4, 2)
        x = SpectralConv2D(scaled(f, width), kernel_size, strides, name=f"conv{i + 1}")(x)
        x = LeakyReLU(alpha=0.1, name=f"conv{i + 1}_leaky_relu")(x)
    _, height, breadth, _ = x.shape
    x = tf.keras.layers.GlobalAveragePooling2D(dtype="float32", name="average_pool")(x)
    if pooling == "sum":
        x = tf.keras.layers.Rescaling(float(height * breadth), dtype="float32", name="sum_pool")(x)
    return tf.keras.Model(pairs, SpectralDense(1, dtype="float32", name="fc")(x), name="patch_discriminator")
