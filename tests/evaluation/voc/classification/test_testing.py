import numpy as np
import pytest
from sklearn import metrics

from lci_tf.evaluation.voc.average_precision import eleven_point
from lci_tf.evaluation.voc.classification import testing

NAMES = ("a", "b", "c")


def devkit_ap(scores, labels):
    """VOC's own, transcribed from its description: at each recall the best precision there or beyond."""
    order = np.argsort(-scores, kind="stable")
    right = np.cumsum(labels[order] == 1)
    recall, precision = right / right[-1], right / np.arange(1, len(order) + 1)
    return sum(max(precision[recall >= t / 10 - 1e-12], default=0) for t in range(11)) / 11


@pytest.fixture(scope="module")
def answers():
    rng = np.random.default_rng(1)
    labels = (rng.random([80, 3]) < 0.3).astype(np.int8)
    labels[rng.random([80, 3]) < 0.1] = -1
    logits = labels[:, None] + rng.normal(size=[80, 4, 3])
    return logits, labels


def test_the_scores_of_an_images_crops_are_summed(answers):
    logits, labels = answers
    found = testing.evaluate(logits, labels, NAMES)
    for key, scores in (("4_crops", logits.sum(axis=1)), ("one_crop", logits[:, 0])):
        for i, name in enumerate(NAMES):
            counts = labels[:, i] >= 0
            truth, score = labels[counts, i], scores[counts, i]
            assert found[key]["per_class"][name] == pytest.approx(metrics.average_precision_score(truth, score))
            assert found[key]["eleven_points_per_class"][name] == pytest.approx(devkit_ap(score, truth))
        assert found[key]["average_precision"] == pytest.approx(np.mean(list(found[key]["per_class"].values())))
    assert found["4_crops"]["average_precision"] > found["one_crop"]["average_precision"]
    assert found["test_images"] == 80


def test_what_is_difficult_does_not_count(answers):
    """An image whose objects of a class are all difficult is neither right nor wrong."""
    scores, labels = np.array([9.0, 8.0, 7.0, 6.0]), np.array([-1, 1, 0, 1], np.int8)
    assert testing.of_class(scores, labels)[0] == pytest.approx((1 + 2 / 3) / 2)
    assert testing.of_class(scores, np.maximum(labels, 0))[0] < 0.7


def test_a_class_without_images_has_no_average_precision_and_is_not_in_the_mean():
    labels = np.array([[1, 0], [0, 0], [0, -1]], np.int8)
    found = testing.evaluate(np.array([[[3.0, 1]], [[2, 1]], [[1, 2]]]), labels, ("a", "b"))
    assert found["one_crop"]["per_class"] == {"a": 1.0, "b": None} and found["one_crop"]["average_precision"] == 1
    assert found["one_crop"]["eleven_points"] == pytest.approx(1)
    assert "–" in testing.table(found)


def test_eleven_points_by_hand():
    """Three objects, found first, third and fifth: recalls 0…0.3, 0.4…0.6, 0.7…1."""
    recall, precision = np.array([1, 1, 2, 2, 3]) / 3, np.array([1, 1 / 2, 2 / 3, 1 / 2, 3 / 5])
    assert eleven_point(recall, precision) == pytest.approx((4 * 1 + 3 * 2 / 3 + 4 * 3 / 5) / 11)
    # Three of ten are a recall of 0.3, whatever 3 × 0.1 is to a computer.
    assert eleven_point(np.array([0.3]), np.array([1.0])) == pytest.approx(4 / 11)
    assert eleven_point(np.zeros(0), np.zeros(0)) == 0


def test_the_table_has_both_definitions_and_both_numbers_of_crops(answers):
    lines = testing.table(testing.evaluate(*answers, NAMES)).splitlines()
    assert lines[0] == "Average precision in percent, on 80 test images"
    assert lines[1].split() == ["one", "crop", "4", "crops"]
    assert lines[3].split()[0] == "mean" and len(lines[3].split()) == 5 and len(lines) == 4 + 3
