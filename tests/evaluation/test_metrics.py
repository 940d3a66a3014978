import numpy as np
import pytest

from lci_tf.evaluation.metrics import evaluate


def test_accuracy():
    scores = np.eye(3)[[0, 0, 1, 1, 1]]
    found = evaluate(scores, np.array([0, 0, 1, 0, 1]))
    assert (found.kind, found.value, found.count) == ("accuracy", 0.8, 5)
    assert found.confusion.tolist() == [[2, 1, 0], [0, 2, 0], [0, 0, 0]]
    np.testing.assert_array_equal(found.per_class, [2 / 3, 1, np.nan])


def by_hand(scores, labels):
    """Σ (R_k - R_{k-1}) P_k over the thresholds, equal scores being one threshold."""
    total, recall = 0.0, 0.0
    for threshold in np.unique(scores)[::-1]:
        taken = scores >= threshold
        precision, new_recall = labels[taken].mean(), labels[taken].sum() / labels.sum()
        total, recall = total + (new_recall - recall) * precision, new_recall
    return total


@pytest.mark.parametrize("levels", [5, 10**6])
def test_average_precision_with_ties(levels):
    rng = np.random.default_rng(levels)
    scores = rng.integers(0, levels, [200, 4]).astype(np.float32)
    labels = (rng.random([200, 4]) < 0.3).astype(np.int8)
    found = evaluate(scores, labels)
    np.testing.assert_allclose(found.per_class, [by_hand(scores[:, i], labels[:, i]) for i in range(4)])
    assert (found.kind, found.confusion) == ("average precision", None)
    assert found.value == pytest.approx(found.per_class.mean())


def test_images_not_to_be_counted():
    scores, labels = np.array([[3.0], [2.0], [1.0]]), np.array([[1], [-1], [1]], np.int8)
    assert evaluate(scores, labels).value == 1.0
    without = evaluate(np.array([[3.0, 1.0], [2.0, 1.0]]), np.array([[1, 0], [0, -1]], np.int8))
    np.testing.assert_array_equal(without.per_class, [1.0, np.nan])
    assert without.value == 1.0
