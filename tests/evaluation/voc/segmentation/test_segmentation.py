"""From a network and a folder to results, and what is said to mistakes."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from sklearn import metrics

from lci_tf.config import voc_protocols
from lci_tf.evaluation.voc.segmentation import drawings, masks, segmentation
from lci_tf.evaluation.voc.segmentation.loading import Example
from lci_tf.evaluation.voc.task import Request
from lci_tf.runs import trained

OPTIONS = {"class_names": None, "void": [], "at_once": 3}


def request(data_dir, dataset="folder", **values):
    options = OPTIONS | {name: values.pop(name) for name in OPTIONS if name in values}
    return Request(dataset=dataset, data_dirs=(str(data_dir),), options=options, **values)


@pytest.fixture(scope="module")
def finished(layouts, tmp_path_factory):
    """A short training on coloured bands."""
    place = tmp_path_factory.mktemp("segmentation")
    given = {"iterations": 30, "batch_size": 3, "learning_rate": 0.003, "dropout": 0.0}
    protocol = voc_protocols.resolve("segmentation", None, given)
    asked = request(layouts["folder"](place / "data"), out_dir=str(place / "out"))
    run = lambda: segmentation.run(trained.random("alexnet_small", width=0.05), protocol, asked)  # noqa: E731
    return place, run(), run


def test_it_learns_and_leaves_all_behind(finished):
    _, answer, _ = finished
    assert {path.name for path in answer.folder.iterdir()} == {
        "protocol.json", "results.json", "masks", "masks.png", "mistakes.png", "confusion.png", "training_images.png",
        "model.keras", "metrics.jsonl", "tensorboard",
    }  # fmt: skip
    results = json.loads((answer.folder / "results.json").read_text())
    assert list(results["per_class"]) == ["sky", "wall", "grass"] and results["test_images"] == 3
    assert results["pixel_accuracy"] > 0.6 > max(results["pixels"]["test"].values())  # more than by naming one class
    assert results["protocol"]["changed"] == ["iterations", "batch_size", "learning_rate", "dropout"]
    assert sum(results["pixels"]["test"].values()) == pytest.approx(1)
    assert ["mean", "IoU", f"{100 * results['mean_iou']:.1f}"] in [line.split() for line in answer.table.splitlines()]
    events = b"".join(path.read_bytes() for path in (answer.folder / "tensorboard").iterdir())
    for name in (b"training_images", b"masks", b"mistakes", b"confusion", b"pixel_accuracy"):
        assert name in events, name


def test_the_figures_are_those_of_the_masks(finished):
    """By scikit-learn, from what was written, with the numbers of the data set's own masks."""
    place, answer, _ = finished
    truth, found = (
        np.concatenate([masks.read(str(where / f"{i}.png")).ravel() for i in range(3)])
        for where in (place / "data" / "valannot", answer.folder / "masks")
    )
    counts = truth != 2
    per_class = metrics.jaccard_score(truth[counts], found[counts], labels=[0, 1, 3], average=None)
    np.testing.assert_allclose(list(answer.results["per_class"].values()), per_class)
    assert answer.results["mean_iou"] == pytest.approx(per_class.mean())
    assert answer.results["pixel_accuracy"] == pytest.approx(metrics.accuracy_score(truth[counts], found[counts]))


def test_asked_again_it_shows_its_results(finished, capsys):
    _, answer, run = finished
    again = run()
    assert (again.results, again.table) == (json.loads(json.dumps(answer.results)), answer.table)
    assert "training" not in capsys.readouterr().err


def test_the_network_that_is_left_gives_scores(finished):
    _, answer, _ = finished
    network = tf.keras.models.load_model(answer.folder / "model.keras", compile=False)
    assert network(np.zeros([1, 256, 288, 3], np.float32)).shape == (1, 3, 4, 3)


def test_other_masks_are_another_question(finished, refusal):
    place, answer, _ = finished
    protocol = voc_protocols.resolve("segmentation", None, {"iterations": 15})
    other = request(place / "data", out_dir=str(answer.folder), void=["3"])
    assert "choose another folder" in refusal(segmentation.run, trained.random("alexnet_small", 0.05), protocol, other)


def test_what_has_no_masks(folder, voc, refusal):
    def message(*arguments, **values):
        return refusal(segmentation.find, request(*arguments, **values))

    assert message(folder, "stl10").startswith("--dataset=stl10: has no masks;")
    assert message(voc, "voc/2007", void=["3"]).startswith("--class_names and --void: only for --dataset=folder")
    nowhere = dataclasses.replace(request(voc, "voc/2007"), data_dirs=())
    assert refusal(segmentation.find, nowhere).startswith(
        "--data_dir: missing; give the folder of the images and masks"
    )
    train, test = segmentation.find(request(voc, "voc/2007"))
    assert (train.count, test.count) == (2, 1)


def test_flags(run_command, folder, tmp_path):
    flags = [
        "--task=segmentation",
        "--dataset=folder",
        f"--data_dir={folder}",
        "--random_init",
        f"--out_dir={tmp_path}/o",
    ]
    (folder / "trainannot" / "5.png").unlink()
    answers = run_command(
        "voc", flags, [*flags, "--void=x"], [*flags, "--crops=3"], ["--task=classification", "--padding=3"],
        [*flags, "--protocol=krahenbuhl"],
    )  # fmt: skip
    assert [code for code, *_ in answers] == [2] * 5
    said = [errors.strip() for *_, errors in answers]
    assert said[0] == (f"lci_tf.voc: {folder}/train/5.jpg: has no mask; expected {folder}/trainannot/5.png")
    assert "--void" in said[1] and "expected numbers from 0 to 255" in said[1]
    assert said[2] == "lci_tf.voc: --crops: only for --task=classification"
    assert said[3] == "lci_tf.voc: --padding: only for --task=segmentation"
    assert said[4] == "lci_tf.voc: --protocol=krahenbuhl: unknown; --task=segmentation has fcn32s, colorization"


def test_both_protocols():
    """The numbers that were read in the code they name."""
    fcn, other = (voc_protocols.resolve("segmentation", name, {}) for name in (None, "colorization"))
    for protocol in (fcn, other):
        assert (protocol.batch_size, protocol.momentum, protocol.weight_decay) == (20, 0.9, 5e-4)
        assert (protocol.learning_rate, protocol.padding, protocol.bias_rate) == (1e-4, 100, 2.0)
    assert (fcn.name, fcn.iterations, fcn.drops) == ("fcn32s", 100_000, ())
    assert (other.iterations, other.drops, other.factor) == (150_000, (50_000, 100_000), 0.1)
    assert voc_protocols.resolve("segmentation", "colorization", {"iterations": 300}).drops == (100, 200)


def test_pictures_show_what_is_wrong():
    image = np.full([4, 6, 3], 100, np.uint8)
    truth, found = np.zeros([4, 6], np.uint8), np.zeros([4, 6], np.uint8)
    truth[0], found[1], truth[2] = masks.VOID, 1, 1
    wrong = drawings.errors(image, truth, found)
    is_red = wrong[..., 0] > wrong[..., 1].astype(int) + 40
    np.testing.assert_array_equal(is_red, np.repeat([[False], [True], [True], [False]], 6, axis=1))
    over = drawings.overlaid(image, truth, ("background", "cat"))
    np.testing.assert_array_equal(over[3], image[3])  # background is not coloured
    assert (over[2] == np.round(0.4 * 100 + 0.6 * masks.palette()[1])).all()
    assert (drawings.overlaid(image, truth, ("sky", "cat"))[3] != image[3]).any()
    table = drawings.comparison([(Example(image, truth, 0), found)], ("background", "cat"))
    assert table.dtype == np.uint8 and table.shape[1] > 4 * 260


def test_a_large_image_is_judged_at_its_own_size(folder, tmp_path):
    """What `--short_side` brings down is tested on the masks as they are."""
    protocol = voc_protocols.resolve("segmentation", None, {"iterations": 1, "batch_size": 1, "short_side": 30})
    answer = segmentation.run(
        trained.random("alexnet_small", 0.05), protocol, request(folder, out_dir=str(tmp_path / "out"))
    )
    assert np.asarray(Image.open(answer.folder / "masks" / "0.png")).shape == (60, 80)
