import numpy as np
import pytest
from sklearn import metrics

from lci_tf.evaluation.voc.segmentation.masks import VOID
from lci_tf.evaluation.voc.segmentation.scoring import confusion, score


@pytest.fixture
def masks():
    """Truth with void, and what was found; of class 4 there is nothing in either."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, [3, 20, 30]).astype(np.uint8)
    found = np.where(rng.random(truth.shape) < 0.6, truth, rng.integers(0, 4, truth.shape)).astype(np.uint8)
    truth[rng.random(truth.shape) < 0.1] = VOID
    return truth, found


def test_as_scikit_learn_counts(masks):
    truth, found = masks
    counts = truth != VOID
    judged = score(sum(confusion(t, f, 5) for t, f in zip(truth, found, strict=True)))
    np.testing.assert_array_equal(
        judged.confusion, metrics.confusion_matrix(truth[counts], found[counts], labels=range(5))
    )
    of_classes = metrics.jaccard_score(truth[counts], found[counts], labels=range(4), average=None)
    np.testing.assert_allclose(judged.iou, [*of_classes, np.nan])
    macro = metrics.jaccard_score(truth[counts], found[counts], labels=range(4), average="macro")
    assert judged.mean_iou == pytest.approx(macro)
    assert judged.pixel_accuracy == pytest.approx(metrics.accuracy_score(truth[counts], found[counts]))


def test_a_class_that_is_only_found_counts_as_zero():
    judged = score(confusion(np.array([[0, 0, VOID]], np.uint8), np.array([[0, 1, 1]], np.uint8), 3))
    np.testing.assert_array_equal(judged.iou, [0.5, 0.0, np.nan])
    assert (judged.mean_iou, judged.pixel_accuracy) == (0.25, 0.5)


def test_nothing_but_void():
    judged = score(confusion(np.full([2, 2], VOID, np.uint8), np.zeros([2, 2], np.uint8), 2))
    assert np.isnan(judged.mean_iou) and np.isnan(judged.pixel_accuracy)
