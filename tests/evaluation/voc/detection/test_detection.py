import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from lci_tf.config import voc_protocols
from lci_tf.data import open_source
from lci_tf.evaluation.voc import trunk
from lci_tf.evaluation.voc.detection import annotations, boxes, detection
from lci_tf.evaluation.voc.detection.detector import Detector
from lci_tf.evaluation.voc.detection.examples import Images
from lci_tf.evaluation.voc.detection.training import Training
from lci_tf.evaluation.voc.task import Request
from lci_tf.runs import Run, trained

SETTINGS = {"iterations": 4, "short_side": 64, "rois": 16, "least_score": 0.0, "most": 10, "rescale": False}


def resolved(**changes):
    return voc_protocols.resolve("detection", "fast_rcnn", {**SETTINGS, **changes})


@pytest.fixture(scope="module")
def place(tmp_path_factory, write_voc):
    """A VOC folder, and `proposals.csv` with boxes near the objects and elsewhere."""
    place = tmp_path_factory.mktemp("voc")
    for seed, (split, count) in enumerate({"trainval": 6, "test": 3}.items()):
        write_voc(place, split, count, seed)
    rng, lines = np.random.default_rng(0), ["image,xmin,ymin,xmax,ymax"]
    for split in ("trainval", "test"):
        for one in annotations.read(open_source("voc/2007", split, [place])):
            corners = rng.integers(0, 40, [20, 2])
            elsewhere = np.concatenate([corners, corners + rng.integers(8, 24, [20, 2])], 1)
            near = one.boxes.repeat(8, 0) + rng.integers(-5, 6, [8 * len(one.boxes), 4])
            for box in boxes.clipped(np.float32(np.concatenate([near, elsewhere])), one.width, one.height).numpy():
                lines.append(",".join([one.number, *(f"{edge + 1:g}" for edge in box)]))
    (place / "proposals.csv").write_text("\n".join(lines) + "\n")
    return place


def request(place, out_dir, **changes):
    options = {"proposals": [str(place / "proposals.csv")]}
    return Request(**{"dataset": "voc/2007", "data_dirs": (str(place),), "out_dir": str(out_dir),
                      "options": options, **changes})  # fmt: skip


@pytest.fixture(scope="module")
def answer(place, tmp_path_factory):
    model = trained.random("alexnet_small", 0.05, seed=0)
    return detection.run(model, resolved(), request(place, tmp_path_factory.mktemp("out") / "all"))


def test_results_say_what_was_asked_and_what_came_of_it(answer, place):
    kept = json.loads((answer.folder / "results.json").read_text())
    assert kept == json.loads(json.dumps(answer.results))
    truth = annotations.read(open_source("voc/2007", "test", [place]))
    assert sum(kept["objects"].values()) == sum(len(one.boxes) for one in truth)
    for rule in ("eleven_points", "all_points"):
        values = [v for v in kept[rule]["per_class"].values() if v is not None]
        assert kept[rule]["average_precision"] == pytest.approx(np.mean(values))
        assert {name for name, v in kept[rule]["per_class"].items() if v is not None} == {
            name for name, count in kept["objects"].items() if count
        }
    assert kept["iterations"] == 4 and kept["test_images"] == 3 and kept["proposals"]["recall"] == 1.0
    assert "boxes" in kept["data"]["train"] and kept["data"]["test"]["images"] == 3
    assert kept["protocol"]["changed"] and kept["origins"]["conv1"] == "new"
    assert "11 points" in answer.table and "aeroplane" in answer.table


def test_nothing_that_was_for_going_on_is_left_and_all_that_is_named_is_there(answer):
    assert not (answer.folder / "checkpoints").exists() and not (answer.folder / "found").exists()
    for name in [*answer.files.values(), "training_regions.png", "results.json", "metrics.jsonl"]:
        assert (answer.folder / name).exists(), name
    for name in ("detections.png", "training_regions.png", "precision_recall.png"):
        assert np.asarray(Image.open(answer.folder / name).convert("RGB")).std() > 5
    assert [record["step"] for record in Run(answer.folder).metrics()] == [4]
    events = b"".join(path.read_bytes() for path in (answer.folder / "tensorboard").iterdir())
    for name in (b"training_regions", b"detections", b"precision_recall", b"loss"):
        assert name in events, name


def test_asked_again_it_shows_the_results_and_another_question_is_refused(answer, place, refusal):
    model = trained.random("alexnet_small", 0.05, seed=0)
    before = (answer.folder / "results.json").stat().st_mtime_ns
    again = detection.run(model, resolved(), request(place, answer.folder))
    assert again.table == answer.table and (answer.folder / "results.json").stat().st_mtime_ns == before
    said = refusal(detection.run, model, resolved(iterations=5), request(place, answer.folder))
    assert "holds a detection with another protocol.drops ([3], not [4])" in said


def test_the_export_finds_what_the_test_found(answer, place):
    found = np.load(answer.folder / "detections.npz")
    truth = annotations.read(open_source("voc/2007", "test", [place]))
    assert found["numbers"].tolist() == [one.number for one in truth]
    number = int(found["images"][0])
    rows = np.loadtxt(place / "proposals.csv", delimiter=",", skiprows=1)
    proposals = rows[rows[:, 0] == int(truth[number].number)][:, 1:] - 1
    find = tf.saved_model.load(str(answer.folder / "export" / "1")).signatures["serving_default"]
    pixels = tf.io.decode_jpeg(truth[number].path.read_bytes(), dct_method="INTEGER_ACCURATE")
    made = find(pixels=pixels, proposals=tf.constant(proposals, tf.float32))
    for name in ("boxes", "scores", "classes"):
        np.testing.assert_allclose(made[name], found[name][found["images"] == number], atol=1e-3)


@pytest.fixture(scope="module")
def of(place):
    annotated = annotations.read(open_source("voc/2007", "trainval", [place]))
    rng = np.random.default_rng(1)
    near = [one.boxes.repeat(10, 0) + rng.integers(-4, 5, [10 * len(one.boxes), 4]) for one in annotated]
    return Images(annotated, [boxes.clipped(np.float32(b), a.width, a.height).numpy()
                              for a, b in zip(annotated, near, strict=True)])  # fmt: skip


def weights_after(of, path, protocol, checkpoint_every=100):
    made = Detector(trunk.build(trained.random("alexnet_small", 0.05, seed=0)), 20, dropout=0.5)
    before = [v.numpy() for v in made.trunk.layers["conv1"].weights]
    assert Training(made, of, protocol, seed=0).run(Run(path), checkpoint_every) == protocol.iterations
    for old, new in zip(before, made.trunk.layers["conv1"].weights, strict=True):
        np.testing.assert_array_equal(old, new)  # it is fixed
    return [variable.numpy() for variable in made.trained()]


def test_a_training_that_was_interrupted_goes_on_to_the_same_weights(of, tmp_path):
    # Rates as if it were to be longer: only the number of iterations differs.
    whole = weights_after(of, tmp_path / "whole", resolved(drops=(3,)))
    weights_after(of, tmp_path / "parts", resolved(iterations=2, drops=(3,)))
    parts = weights_after(of, tmp_path / "parts", resolved(drops=(3,)))
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_other_data_sets_and_proposals_are_refused_in_a_line(place, tmp_path, refusal):
    model = trained.random("alexnet_small", 0.05, seed=0)
    asked = request(place, tmp_path / "out", dataset="celeb_a")
    expected = "--dataset=celeb_a: has no boxes; --task=detection needs voc/2007 or voc/2012"
    assert refusal(detection.run, model, resolved(), asked) == expected
    (tmp_path / "other.csv").write_text("image,xmin,ymin,xmax,ymax\n000000,1,1,9,9\n")
    asked = request(place, tmp_path / "out", options={"proposals": [str(tmp_path / "other.csv")]})
    assert "are they for other images?" in refusal(detection.run, model, resolved(), asked)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_it_learns_to_find_rectangles(tmp_path, write_voc):
    pytest.importorskip("cv2")
    for seed, (split, count) in enumerate({"trainval": 40, "test": 20}.items()):
        write_voc(tmp_path / "voc", split, count, seed)
    protocol = resolved(iterations=300, least_score=0.05, rescale=True, rois=64, learning_rate=0.003)
    options = {"proposals_dir": str(tmp_path / "proposals")}
    asked = dataclasses.replace(request(tmp_path / "voc", tmp_path / "out"), options=options)
    found = detection.run(trained.random("alexnet_small", 0.1, seed=0), protocol, asked).results
    assert found["all_points"]["average_precision"] > 0.5
