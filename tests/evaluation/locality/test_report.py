import pytest

from lci_tf.evaluation.locality import report
from lci_tf.evaluation.locality.cells import Cell
from lci_tf.evaluation.locality.report import Accuracy

WINDOWS = (3, 9, 33, "whole")


def by_window(*means, error=0.01):
    return {window: Accuracy(mean, error, (mean,)) for window, mean in zip(WINDOWS, means, strict=False)}


@pytest.mark.parametrize(
    "name, means, expected",
    [
        ("warp", (0.6, 0.83, 0.9, 0.99), "warp: told from r = 9 on (83 %): C can solve this without seeing the object"),
        ("lci", (0.6, 0.6, 0.8, 0.7), "lci: told from r = 33 on (80 %): C can solve this from parts of 27 % of the "
                                      "image"),
        ("rot", (0.5, 0.52, 0.61, 0.9), "rot: told from the whole image (90 %), not from windows up to r = 33 within "
                                        "this budget: C has to see what is in it"),
        ("lci", (0.5, 0.61, 0.6, 0.55), "lci: not told within this budget (at most 61 %, at r = 9)"),
        ("warp", (0.5, 0.5, 0.51, 0.52), "warp: not told within this budget (at most 52 %, from the whole image)"),
        ("rot", (0.5, 0.51, 0.49, 0.52), "rot: not told within this budget, but at chance for every r and the whole "
                                         "image too (at most 52 %): such images have no up and down, so that rotations "
                                         "would teach nothing"),
        ("rot", (0.5, 0.51, 0.49, 0.62), "rot: not told within this budget (at most 62 %, from the whole image)"),
        ("rot", (0.5, 0.51, 0.49), "rot: not told within this budget (at most 51 %, at r = 9)"),
    ],
)  # fmt: skip
def test_verdicts(name, means, expected):
    said = report.verdict(name, by_window(*means), crop_size=64)
    assert said == expected
    assert "cannot be told" not in said


def test_few_test_images_leave_more_room_for_chance():
    means = (0.5, 0.51, 0.49, 0.57)
    assert "no up and down" not in report.verdict("rot", by_window(*means, error=0.01), 64)
    assert "no up and down" in report.verdict("rot", by_window(*means, error=0.04), 64)


def test_an_accuracy_of_74_9_percent_does_not_count_as_told():
    assert "not told" in report.verdict("warp", by_window(0.749, 0.5), 64)
    assert "told from r = 3 on" in report.verdict("warp", by_window(0.75, 0.5), 64)


def found(*accuracies):
    return {
        Cell("warp", seed, 3): {"accuracy": accuracy, "standard_error": 0.02}
        for seed, accuracy in enumerate(accuracies)
    }


def test_seeds_are_averaged_and_the_larger_error_counts():
    (agreeing,) = report.accuracies(found(0.8, 0.8))["warp"].values()
    assert agreeing.mean == 0.8 and agreeing.seeds == (0.8, 0.8)
    assert agreeing.error == pytest.approx(0.02 / 2**0.5)
    (differing,) = report.accuracies(found(0.6, 0.8))["warp"].values()
    assert differing.mean == pytest.approx(0.7) and differing.error == pytest.approx(0.1)
    (alone,) = report.accuracies(found(0.6))["warp"].values()
    assert alone.error == 0.02


def test_the_table_has_a_row_for_each_transformation():
    table = report.table({"warp": by_window(0.6, 0.834), "my:Roll": by_window(0.5, 0.7)}, 1000).splitlines()
    assert "1,000 test images" in table[0] and table[1].split() == ["r", "=", "3", "r", "=", "9"]
    assert table[2].split() == ["warp", "60.0", "±", "1.0", "83.4", "±", "1.0"]
    assert table[3].split()[0] == "my:Roll"
