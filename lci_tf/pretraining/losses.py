"""The losses of C, F and D: float32 scalars, means over a batch."""

import tensorflow as tf


def classification(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Eq. 1, L_SSL: cross-entropy of C's classification of transformations; logits [n, classes], labels int64 [n]."""
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def discriminator_hinge(real: tf.Tensor, fake: tf.Tensor) -> tf.Tensor:
    """ℓ_GAN for D, which should score real pairs above 1 and fake ones below -1; [n, 1] each."""
    return tf.reduce_mean(tf.nn.relu(1.0 - real)) + tf.reduce_mean(tf.nn.relu(1.0 + fake))


def inpainter_hinge(fake: tf.Tensor) -> tf.Tensor:
    """ℓ_GAN for F, which should get high scores for its patches; [n, 1]."""
    return -tf.reduce_mean(fake)


def border(inpainted: tf.Tensor, original: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """|(r - e) · (1 - m)|² as a mean over the pixels and channels of the border; images are [n, p, p, 3].

    The paper does not say whether it is a sum or a mean; the authors' code has this mean.

    Args:
      mask: [p, p, 1], 1 in the centre and 0 on the border.
    """
    squared = tf.square(inpainted - original) * (1.0 - mask)
    channels = squared.shape[-1]
    return tf.reduce_mean(tf.reduce_sum(squared, axis=[1, 2, 3])) / (tf.reduce_sum(1.0 - mask) * channels)


def autoencoding(autoencoded: tf.Tensor, original: tf.Tensor) -> tf.Tensor:
    """|F(e) - e|² as a mean over the whole patch; images are [n, p, p, 3]."""
    return tf.reduce_mean(tf.square(autoencoded - original))
