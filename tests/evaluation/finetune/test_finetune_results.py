import json

import numpy as np

from lci_tf.evaluation.finetune import finetune_results

NAMES = ("cat", "dog", "cow")


def test_one_crop_and_ten(tmp_path):
    probabilities = np.zeros([2, 10, 3], np.float32)
    probabilities[0, :, 0] = 1  # right
    probabilities[1, 0, 0] = 1  # wrong by its centre, right by most of its crops
    probabilities[1, 1:, 1] = 1
    found = finetune_results.evaluate(tmp_path, probabilities, np.array([0, 1]), NAMES)
    assert found == {
        "single_crop": {"accuracy": 0.5, "test_images": 2, "per_class": {"cat": 1.0, "dog": 0.0, "cow": None}},
        "ten_crops": {"accuracy": 1.0, "test_images": 2, "per_class": {"cat": 1.0, "dog": 1.0, "cow": None}},
    }
    json.dumps(found)
    assert (tmp_path / "confusion.png").is_file()
    lines = finetune_results.table(found).splitlines()
    assert lines[0] == "Accuracy in percent, on 2 test images"
    assert [line.split() for line in lines[1:]] == [
        ["fine-tuned"],
        ["single", "crop", "50.0"],
        ["ten", "crops", "100.0"],
        ["of", "each", "class"],
        ["cat", "100.0"],
        ["dog", "0.0"],
        ["cow", "–"],
    ]
    older = {crops.replace("_", " "): summary for crops, summary in found.items()}
    assert finetune_results.table(older).splitlines() == lines


def test_several_labels_per_image(tmp_path):
    probabilities = np.array([[[0.9, 0.1, 0.5]], [[0.1, 0.2, 0.5]]])
    found = finetune_results.evaluate(tmp_path, probabilities, np.array([[1, 0, -1], [0, 1, -1]], np.int8), NAMES)
    assert found["single_crop"]["average_precision"] == 1 and found["single_crop"]["per_class"]["cow"] is None
    assert list(found) == ["single_crop"] and not (tmp_path / "confusion.png").exists()
