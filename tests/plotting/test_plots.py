import types

import numpy as np
import pytest

from lci_tf.plotting import plots


def test_a_confusion_matrix_shows_how_many_images_a_class_has():
    (axes,) = plots.confusion_matrix(np.array([[3, 1], [0, 1200]]), ("cat", "dog")).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["cat (4)", "dog (1,200)"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["cat", "dog"]
    assert axes.get_xlabel().startswith("classified as") and axes.get_ylabel().startswith("class")
    assert [text.get_text() for text in axes.texts] == ["75", "25", "100"]


def test_precision_over_recall_has_a_diagram_for_each_class_and_no_empty_ones():
    curve = plots.PrecisionRecall("cat  50.0", np.array([0.0, 0.5, 1.0]), np.array([1.0, 1.0, 0.25]), guessing=0.1)
    figure = plots.precision_recall([curve._replace(title=f"class {i}") for i in range(6)] + [curve])
    assert [axes.get_title("left") for axes in figure.axes] == [f"class {i}" for i in range(6)] + ["cat  50.0"]
    drawn, guessing = figure.axes[-1].lines
    assert drawn.get_xydata().tolist() == [[0, 100], [50, 100], [100, 25]]
    assert list(guessing.get_ydata()) == [10, 10]


def test_locality_has_a_line_for_each_transformation_and_says_what_counts():
    def by_window(*means):
        return {w: types.SimpleNamespace(mean=m, error=0.01) for w, m in zip((3, 33, "whole"), means, strict=True)}

    (axes,) = plots.locality({"rot": by_window(0.5, 0.6, 0.9), "warp": by_window(0.7, 0.8, 0.8)}, told=0.75).axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["rot", "warp"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["3×3", "33×33", "whole"]
    assert [(text.get_text(), text.get_position()[1]) for text in axes.texts] == [
        ("counts as told", 75),
        ("chance", 50),
    ]
    assert [line[0].get_ydata()[-1] for line in axes.containers] == pytest.approx([90, 80])
