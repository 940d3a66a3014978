import numpy as np
import pytest
import tensorflow as tf

from lci_tf.evaluation.label_losses import cross_entropies, mean_cross_entropy

LOGITS = np.array([[2.0, -1.0, 0.5], [0.0, 3.0, -2.0], [1.0, 1.0, 1.0]])


def softmax(logits):
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def test_classes():
    costs, counts = cross_entropies(tf.constant(LOGITS), tf.constant([0, -1, 2], tf.int64))
    expected = -np.log(softmax(LOGITS)[[0, 2], [0, 2]])
    np.testing.assert_allclose(costs, [expected[0], 0, expected[1]])
    assert counts.numpy().tolist() == [1, 0, 1]
    assert mean_cross_entropy(softmax(LOGITS), np.array([0, -1, 2])) == pytest.approx(expected.mean())


def test_several_labels():
    labels = np.array([[1, 0, -1], [-1, 1, 0], [-1, -1, -1]], np.int8)
    costs, counts = cross_entropies(tf.constant(LOGITS), tf.constant(labels))
    p = 1 / (1 + np.exp(-LOGITS))
    expected = np.array([-np.log(p[0, 0]), -np.log(1 - p[0, 1]), -np.log(p[1, 1]), -np.log(1 - p[1, 2])])
    np.testing.assert_allclose(costs.numpy()[labels >= 0], expected)
    assert costs.numpy()[labels < 0].tolist() == [0] * 5
    np.testing.assert_array_equal(counts, labels >= 0)
    assert mean_cross_entropy(p, labels) == pytest.approx(expected.mean())
    np.testing.assert_array_equal(
        cross_entropies(tf.constant(LOGITS), tf.constant(-labels * 0 - 1))[0], np.zeros([3, 3])
    )
