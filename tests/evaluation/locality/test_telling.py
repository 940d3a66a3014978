import numpy as np

from lci_tf.evaluation.locality import telling
from lci_tf.evaluation.locality.telling import Evidence


def evidence(natural, transformed):
    return Evidence(*(np.array(values, float).reshape([-1, 1, 2]) for values in (natural, transformed)))


def test_the_mean_over_windows_decides():
    # Of four sources: both right; natural wrong; transformed wrong; both right.
    found = evidence([(-3, 2), (-1, 2), (-1, 0), (-5, 1)], [(3, -2), (1, 1), (1, -2), (0, 1)])
    np.testing.assert_array_equal(found.is_right, [[True, False, True, True], [True, True, False, True]])
    summary = telling.summary(found)
    assert (summary["accuracy"], summary["natural"], summary["transformed"]) == (0.75, 0.75, 0.75)
    assert summary["test_images"] == 8


def test_the_error_is_over_sources_not_over_images():
    """Two images of one source that are told alike are one observation."""
    both = evidence([(-1, -1)] * 8 + [(1, 1)] * 8, [(1, 1)] * 8 + [(-1, -1)] * 8)
    one = evidence([(-1, -1)] * 16, [(1, 1)] * 8 + [(-1, -1)] * 8)
    assert telling.summary(both)["standard_error"] == 0.5 / 4
    assert telling.summary(one)["standard_error"] == 0.25 / 4


def test_an_undecided_classifier_is_right_half_of_the_time():
    assert telling.summary(evidence([(0, 0)] * 5, [(0, 0)] * 5))["accuracy"] == 0.5
