"""Cross-entropies for labels as in `Source`: classes, or several labels per image; labels of -1 do not count."""

import numpy as np
import tensorflow as tf


def cross_entropies(logits: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The loss of each label for logits [n, classes], and 1.0 for labels that count, else 0.0.

    Both are [n] for classes (softmax), or [n, classes] for several labels per image (sigmoid).
    """
    counts = tf.cast(labels >= 0, logits.dtype)
    if labels.shape.rank == 2:
        losses = tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(labels, logits.dtype), logits)
    else:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(labels, 0), logits)
    return counts * losses, counts


def mean_cross_entropy(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """The mean loss of the labels that count, for probabilities [n, classes]."""
    if labels.ndim == 2:
        of_truth = np.where(labels == 1, probabilities, 1 - probabilities)[labels >= 0]
    else:
        of_truth = probabilities[np.arange(len(labels)), labels][labels >= 0]
    return float(-np.log(np.maximum(of_truth, 1e-7)).mean())
