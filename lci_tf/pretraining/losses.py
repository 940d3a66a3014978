"""The losses of C, F and D: scalars, means over a batch, in float32."""

import tensorflow as tf


def classification(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Eq. 1, L_SSL: how badly C tells which transformation made each image. [n, classes] and int32 [n]."""
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def discriminator_hinge(real: tf.Tensor, fake: tf.Tensor) -> tf.Tensor:
    """ℓ_GAN as D sees it: real pairs above 1, fake ones below -1."""
    return tf.reduce_mean(tf.nn.relu(1.0 - real)) + tf.reduce_mean(tf.nn.relu(1.0 + fake))


def inpainter_hinge(fake: tf.Tensor) -> tf.Tensor:
    """ℓ_GAN as F sees it."""
    return -tf.reduce_mean(fake)


def border(inpainted: tf.Tensor, original: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """|(r - e) · (1 - m)|², as a mean over the border's own pixels and channels.

    The paper does not say sum or mean; its authors take this mean.

    Args:
      mask: [p, p, 1], 1 in the centre and 0 on the border.
    """
    squared = tf.square(inpainted - original) * (1.0 - mask)
    channels = squared.shape[-1]
    return tf.reduce_mean(tf.reduce_sum(squared, axis=[1, 2, 3])) / (tf.reduce_sum(1.0 - mask) * channels)


def autoencoding(autoencoded: tf.Tensor, original: tf.Tensor) -> tf.Tensor:
    """|F(e) - e|², as a mean over the whole patch."""
    return tf.reduce_mean(tf.square(autoencoded - original))
