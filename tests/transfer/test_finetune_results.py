import json

import numpy as np
import pytest

from lci_tf.evaluation.finetune import finetune_results
from lci_tf.runs import results_folder

NAMES = ("cat", "dog", "cow")


def test_one_crop_and_ten(tmp_path):
    probabilities = np.zeros([2, 10, 3], np.float32)
    probabilities[0, :, 0] = 1  # right
    probabilities[1, 0, 0] = 1  # wrong by its centre, right by most of its crops
    probabilities[1, 1:, 1] = 1
    found = finetune_results.evaluate(tmp_path, probabilities, np.array([0, 1]), NAMES)
    assert found == {
        "single crop": {"accuracy": 0.5, "test_images": 2, "per_class": {"cat": 1.0, "dog": 0.0, "cow": None}},
        "ten crops": {"accuracy": 1.0, "test_images": 2, "per_class": {"cat": 1.0, "dog": 1.0, "cow": None}},
    }
    json.dumps(found)
    assert (tmp_path / "confusion.png").is_file()
    assert finetune_results.table(found).splitlines() == [
        "Accuracy in percent, on 2 images",
        "         single crop    ten crops",
        "  all           50.0        100.0",
        "  cat          100.0        100.0",
        "  dog            0.0        100.0",
        "  cow              –            –",
    ]


def test_several_labels_per_image(tmp_path):
    probabilities = np.array([[[0.9, 0.1, 0.5]], [[0.1, 0.2, 0.5]]])
    found = finetune_results.evaluate(tmp_path, probabilities, np.array([[1, 0, -1], [0, 1, -1]], np.int8), NAMES)
    assert found["single crop"]["average precision"] == 1 and found["single crop"]["per_class"]["cow"] is None
    assert list(found) == ["single crop"] and not (tmp_path / "confusion.png").exists()


ASKED = {"protocol": {"epochs": 3, "layers": ("a", "b")}, "seed": 0}


def test_a_folder_is_for_one_question(tmp_path, refusal):
    folder = tmp_path / "results"
    assert results_folder.begin(folder, ASKED, "fine-tuning") is None
    assert results_folder.begin(folder, ASKED, "fine-tuning") is None
    message = refusal(results_folder.begin, folder, {**ASKED, "seed": 1}, "fine-tuning")
    assert message == f"--out_dir={folder}: holds a fine-tuning with another seed (0, and not 1); choose another folder"
    message = refusal(results_folder.begin, folder, {"protocol": {"epochs": 4, "layers": ["a"]}, "seed": 0}, "probe")
    assert "a probe with another protocol.epochs (3, and not 4)" in message
    results_folder.keep(folder, {"accuracy": 0.5})
    assert results_folder.begin(folder, ASKED, "fine-tuning") == {"accuracy": 0.5}


def test_other_folders_are_refused(tmp_path, refusal):
    (tmp_path / "photo.jpg").write_text("")
    assert "is not empty, and not the folder of a fine-tuning" in refusal(
        results_folder.begin, tmp_path, ASKED, "fine-tuning"
    )
    (tmp_path / "protocol.json").write_text("{")
    assert "protocol.json: is not JSON" in refusal(results_folder.begin, tmp_path, ASKED, "fine-tuning")


@pytest.mark.parametrize("change", [{"seed": 1}, {"protocol": {"epochs": 3, "layers": ("a",)}}])
def test_another_question_has_another_digest(change):
    assert results_folder.digest(ASKED) != results_folder.digest({**ASKED, **change})
    assert results_folder.digest(ASKED) == results_folder.digest(dict(reversed(ASKED.items())))
