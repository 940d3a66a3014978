import json

import numpy as np
import pytest

from lci_tf.evaluation import results
from lci_tf.evaluation.metrics import evaluate
from lci_tf.evaluation.probe import probe_results
from lci_tf.evaluation.results import MULTI, SINGLE
from lci_tf.runs import provenance, results_folder

ASKED = provenance.question(solver="sgd", protocol={"epochs": 2, "layers": ("conv1",)}, seed=0)
NAMES = ("cat", "dog", "eel")


def found(right, multi=False):
    """Of ten images of cats and dogs so many are right, taken in turn; there are no eels."""
    labels = np.arange(10) % 2
    taken = np.where(np.arange(10) < right, labels, 1 - labels)
    one = evaluate(np.eye(3)[taken], labels)
    return {layer: {SINGLE: one, **({MULTI: one} if multi else {})} for layer in ("conv1", "conv2")}


def test_results_come_back_as_they_were_kept(tmp_path):
    folder = tmp_path / "a"
    results_folder.begin(folder, ASKED, "probe")
    evaluations = [found(7)]
    probe_results.draw_confusion(folder, evaluations, NAMES)
    layers = probe_results.results_of(evaluations, NAMES)
    kept = {**ASKED, "network": {"step": 30}, "layers": layers}
    probe_results.keep(folder, kept)
    again = results_folder.begin(folder, ASKED, "probe")
    assert again == json.loads(json.dumps(kept))
    assert not probe_results.has_multi_crop(again)
    assert sorted(path.name for path in folder.glob("*.png")) == ["confusion_conv1.png", "confusion_conv2.png"]
    assert list((folder / "tensorboard").iterdir())


def test_a_figure_and_the_classes():
    layers = probe_results.results_of([found(7, multi=True)], NAMES)
    summary = layers["conv1"][SINGLE]
    assert summary == {
        "accuracy": 0.7,
        "test_images": 10,
        "per_class": {"cat": 0.8, "dog": pytest.approx(0.6), "eel": None},
    }
    lines = results.table(layers).splitlines()
    assert lines[0] == "Accuracy in percent, on 10 test images"
    assert [line.split() for line in lines[1:]] == [
        ["conv1", "conv2"],
        ["single", "crop", "70.0", "70.0"],
        ["ten", "crops", "70.0", "70.0"],
        ["of", "each", "class"],
        ["cat", "80.0", "80.0"],
        ["dog", "60.0", "60.0"],
        ["eel", "–", "–"],
    ]


def test_mean_and_spread_of_folds():
    layers = probe_results.results_of([found(7), found(8), found(9)], NAMES)
    summary = layers["conv2"][SINGLE]
    assert summary["folds"] == [0.7, 0.8, 0.9]
    assert (summary["accuracy"], summary["spread"]) == pytest.approx((0.8, 0.1))
    assert summary["per_class"]["cat"] == pytest.approx((0.8 + 0.8 + 1.0) / 3)
    lines = results.table(layers).splitlines()
    assert lines[0] == "Accuracy in percent, on 10 test images, mean and spread of 3 folds"
    assert lines[2].split() == ["single", "crop", "80.0", "±", "10.0", "80.0", "±", "10.0"]


def test_several_labels_have_no_confusion(tmp_path):
    one = evaluate(np.array([[0.3], [0.1]]), np.array([[1], [0]], np.int8))
    evaluations = [{"conv1": {SINGLE: one}}]
    probe_results.draw_confusion(tmp_path, evaluations, ("smiling",))
    assert not list(tmp_path.iterdir())
    shown = results.table(probe_results.results_of(evaluations, ("smiling",)))
    assert shown.startswith("Average precision in percent, on 2 test images\n")
    assert shown.splitlines()[-1].split() == ["smiling", "100.0"]


def test_many_classes_are_for_the_file():
    one = evaluate(np.eye(60), np.arange(60))
    layers = probe_results.results_of([{"conv1": {SINGLE: one}}], [f"class {i}" for i in range(60)])
    assert len(results.table(layers).splitlines()) == 3
