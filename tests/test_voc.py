"""The command, on a few images and a narrow network. Detection and segmentation have tests of their own."""

import json

import numpy as np
import pytest
import tensorflow as tf

PLANE, BOAT, HIDDEN = ("aeroplane", False), ("boat", False), ("boat", True)
SMALL = ["--random_init", "--width=0.05", "--crop_size=67", "--short_side=70", "--iterations=3", "--batch_size=8",
         "--crops=2"]  # fmt: skip


@pytest.fixture(scope="module")
def place(write_voc):
    images = [[PLANE], [BOAT], [PLANE, BOAT], []]
    return write_voc({"trainval": images * 3, "test": [*images, [HIDDEN]]})


@pytest.fixture(scope="module")
def answers(run_command, place, tmp_path_factory):
    """The command twice in the same folder, and then with another seed."""
    folder = tmp_path_factory.mktemp("out") / "a"
    flags = [*SMALL, f"--data_dir={place}", f"--out_dir={folder}"]
    return folder, run_command("voc", flags, flags, [*flags, "--seed=1"])


def test_results_pictures_and_the_classifier_are_left_behind(answers):
    folder, ((code, said, _), *_) = answers
    assert code == 0
    names = {path.name for path in folder.iterdir()}
    assert names == {
        *("results.json", "protocol.json", "precision_recall.png", "worst_mistakes.png", "model.keras", "labels.txt"),
        *("export", "scores.npz", "training_images.png", "metrics.jsonl", "tensorboard"),
    }
    results = json.loads((folder / "results.json").read_text())
    assert results["test_images"] == 5 and results["iterations"] == 3 and results["crops"] == 2
    assert results["origins"] == dict.fromkeys(["conv1", "conv2", "conv3", "conv4", "conv5", "fc6", "fc7"], "new")
    assert results["2_crops"]["per_class"]["aeroplane"] > 0 and results["2_crops"]["per_class"]["cat"] is None
    assert results["protocol"]["changed"] == ["iterations", "batch_size", "crop_size", "short_side", "crops"]
    assert "Classification 'krahenbuhl'" in said and "12 to train on, 5 to test on" in said
    assert "conv1 … fc7                  new" in said and f"Mistakes   {folder / 'worst_mistakes.png'}" in said
    assert "Average precision in percent, on 5 test images" in said


def test_scores_are_kept_with_their_images(answers):
    folder, _ = answers
    with np.load(folder / "scores.npz") as kept:
        assert kept["scores"].shape == (5, 20) and kept["images"].tolist() == list(range(5))
        assert kept["labels"][4, list(kept["names"]).index("boat")] == -1  # difficult: does not count


def test_the_export_answers_encoded_images_as_the_model_does(answers, place):
    folder, _ = answers
    served = tf.saved_model.load(str(folder / "export" / "1"))
    contents = tf.constant([(place / "JPEGImages" / "000001.jpg").read_bytes()])
    (name,) = [name for name in served.signatures if name == "serving_default"]
    signature = served.signatures[name]
    ((key, _),) = signature.structured_input_signature[1].items()
    found = signature(**{key: contents})
    assert found["probabilities"].shape == (1, 20) and found["labels"][0, 0] == b"aeroplane"
    assert 0.2 < float(found["probabilities"][0, 0]) < 0.9


def test_run_again_it_shows_its_results(answers):
    _, ((_, first, _), (code, second, errors), _) = answers
    table = first[first.index("Average precision") :]
    assert code == 0 and second == table and "training" not in errors


def test_a_folder_is_for_one_question(answers):
    _, (*_, (code, _, errors)) = answers
    assert code == 2 and "holds a classification with another network.seed (0, not 1); choose another" in errors


def test_mistakes_are_reported_in_one_line(run_command, write_voc, tmp_path):
    def voc(name, **files):
        place = write_voc({"trainval": [[PLANE]] * 3, "test": [[BOAT]] * 2})
        for path, text in files.items():
            path = place / path
            path.unlink() if text is None else path.write_text(text)
        return name, f"--data_dir={place}"

    cases = {
        "JPEGImages/000004.jpg: no such image, though voc/2007 test lists it": voc(
            "image", **{"JPEGImages/000004.jpg": None}),
        "Annotations/000005.xml: no such file, though ImageSets/Main lists the image": voc(
            "annotation", **{"Annotations/000005.xml": None}),
        "object 'unicorn' is not one of VOC's twenty classes": voc("class", **{
            "Annotations/000001.xml": "<annotation><object><name>unicorn</name></object></annotation>"}),
        "trainval.txt: lists no image": voc("empty", **{"ImageSets/Main/trainval.txt": "\n"}),
    }  # fmt: skip
    flags = {message: [*SMALL, of] for message, (_, of) in cases.items()}
    same = cases["trainval.txt: lists no image"][1]
    flags |= {
        "--run_dir: missing; give a run of lci_tf.train": ["--dataset=voc/2007", same],
        "--protocol=fast: unknown; --task=classification has krahenbuhl": [*SMALL, same, "--protocol=fast"],
        "--crops: only for --task=classification": ["--random_init", same, "--task=detection", "--crops=3"],
        "--crop_size": [*SMALL, same, "--crop_size=5"],
        "has classes per image, which is not supported here; expected several labels per image": [
            *SMALL, "--dataset=synthetic"],
    }  # fmt: skip
    for (message, _), (code, _, errors) in zip(flags.items(), run_command("voc", *flags.values()), strict=True):
        assert code == 2 and message in errors and errors.count("\n") == 1, (message, errors)


def test_a_table_of_ones_own_images_with_the_short_protocol(run_command, place, tmp_path):
    rows = [f"JPEGImages/{i:06d}.jpg,{labels}" for i, labels in enumerate(["sky", "sea", "sky;sea", ""] * 3, start=1)]
    (place / "labels.csv").write_text("file,labels\n" + "\n".join(rows) + "\n")
    ((code, said, errors),) = run_command(
        "voc", [*SMALL, "--protocol=own_images", "--dataset=csv", f"--data_dir={place}", f"--out_dir={tmp_path / 'a'}",
                "--check_every=1", "--batch_size=4"]
    )  # fmt: skip
    assert code == 0, errors
    results = json.loads((tmp_path / "a" / "results.json").read_text())
    assert list(results["2_crops"]["per_class"]) == ["sea", "sky"] and results["best_iteration"] in (1, 2, 3)
    assert "7 to train on, 2 to validate with, 3 to test on" in said
