"""The command as a user runs it, but several times in one process: TensorFlow takes seconds to start."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from lci_tf import models
from lci_tf.config import presets
from lci_tf.runs import Run, checkpoints


@pytest.fixture
def run_knn(run_command):
    return lambda *commands: run_command("knn", *commands)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with one checkpoint, of a C that was not trained."""
    run = Run(tmp_path_factory.mktemp("runs") / "one")
    settings = presets.resolve("stl10", {"crop_size": 32, "width": 0.05, "transforms": ("rot",)})
    run.begin({**vars(settings), "dataset": "stl10"})
    run.describe({"labels": ["identity", "rot90"], "parameters": {"C": 1}})
    tf.keras.utils.set_random_seed(5)
    saver = checkpoints.Checkpoints(run, {"classifier": models.classifier("alexnet_small", 2, 32, width=0.05)})
    saver.restore_latest()
    saver.save(7)
    return run.path


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Red and blue images, most of them easy to tell apart: 24 to train on, 16 to test with."""
    folder, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for split, count in (("train", 12), ("val", 8)):
        for channel, name in ((0, "red"), (2, "blue")):
            (folder / split / name).mkdir(parents=True)
            for i in range(count):
                pixels = rng.integers(0, 150, [6, 6, 3], np.uint8)
                pixels[..., channel] += 100
                image = Image.fromarray(pixels).resize((48, 40), Image.Resampling.BICUBIC)
                image.save(folder / split / name / f"{i}.png")
    return folder


def test_accuracies_and_pictures(run, photos, tmp_path, run_knn):
    data = [f"--run_dir={run}", "--dataset=folder", f"--data_dir={photos}"]
    tf.keras.Sequential([tf.keras.Input([24, 24, 3]), tf.keras.layers.Conv2D(4, 5, name="own")]).save(
        tmp_path / "other.keras"
    )
    other = [f"--compare={tmp_path / 'other.keras'}", "--compare_layer=own"]
    fewer = tmp_path / "fewer"
    shutil.copytree(photos, fewer)
    (fewer / "val" / "red" / "0.png").unlink()
    (left_out, tested, random, named, another, others) = run_knn(
        [*data, "--k=1,3,15", "--layers=conv1,conv5"],
        [*data, "--k=3,1", "--train_test", f"--out_dir={tmp_path / 'tested'}"],
        [*data, "--retrieve=4", f"--out_dir={tmp_path / 'random'}"],
        [*data, "--queries=red/3.png,15", "--neighbours=5", f"--out_dir={tmp_path / 'named'}", *other],
        [*data, "--k=3", "--train_test", f"--out_dir={tmp_path / 'tested'}"],
        [*data, "--k=3,1", "--train_test", f"--out_dir={tmp_path / 'tested'}", f"--data_dir={fewer}"],
    )
    assert others[0] == 2 and "tested: holds a search for neighbours with another data." in others[2]
    assert another[0] == 2 and another[2].endswith(
        "tested: holds a search for neighbours with another protocol.k ([1, 3], not [3]); choose another folder\n"
    )
    for code, _, stderr in (left_out, tested, random, named):
        assert code == 0, stderr

    (folder,) = (run / "knn").iterdir()
    assert folder.name.startswith("folder_val_step-7_")
    assert sorted(path.name for path in folder.iterdir()) == ["accuracy.png", "protocol.json", "results.json"]
    results = json.loads((folder / "results.json").read_text())
    assert results["protocol"] == {"method": "leave one out", "k": [1, 3, 15], "crops": "five",
                                   "features": "standardised", "similarity": "cosine", "search": "exact"}  # fmt: skip
    assert (results["data"]["dataset"], results["data"]["classes"]) == ("folder", 2)
    (looked_at,) = results["data"]["sets"]
    assert (looked_at["split"], looked_at["images"], len(looked_at["contents"])) == ("val", 16, 16)
    (network,) = results["networks"]
    assert (network["step"], network["crop_size"], network["resize"]) == (7, 32, 48) and len(network["digest"]) == 16
    assert list(network["accuracy"]) == ["conv1", "conv5"] and network["accuracy"]["conv1"]["3"] > 0.8
    # All others vote, and of the query's own class there is one fewer.
    assert network["accuracy"]["conv5"]["15"] == 0
    lines = left_out[1].splitlines()
    assert lines[0] == "Nearest neighbours, leave one out, 16 images of folder val: accuracy in percent"
    assert lines[1].split() == ["k", "1", "3", "15"] and lines[2].startswith("  one, step 7, conv1 ")
    assert lines[3].startswith("  one, step 7, conv5 ") and lines[3].endswith("     0.0")
    assert lines[4].startswith(f"Inputs     images val {looked_at['contents'][:8]}/")
    assert lines[5:] == [f"Results    {folder / 'results.json'}", f"Figure     {folder / 'accuracy.png'}"]

    results = json.loads((tmp_path / "tested" / "results.json").read_text())
    assert results["protocol"]["method"] == "train and test" and results["protocol"]["k"] == [1, 3]
    assert [(of["split"], of["images"]) for of in results["data"]["sets"]] == [("train", 24), ("val", 16)]
    assert list(results["networks"][0]["accuracy"]) == ["conv5"]

    assert "one, step 7: " in random[1] and "(green frames)" in random[1]
    assert len(json.loads((tmp_path / "random" / "retrieval.json").read_text())["queries"]) == 4
    results = json.loads((tmp_path / "named" / "retrieval.json").read_text())
    assert [network["name"] for network in results["networks"]] == ["one, step 7", "other"]
    assert [network["crop_size"] for network in results["networks"]] == [32, 24]
    first, second = results["queries"]
    assert first["query"] == f"{photos}/val/red/3.png" and second["query"] == f"{photos}/val/red/7.png"
    assert all(len(query[name]) == 5 for query in (first, second) for name in ("one, step 7", "other"))
    assert results["protocol"]["crops"] == "centre" and results["networks"][1]["layers"] == ["own"]
    with Image.open(tmp_path / "named" / "retrieval.png") as picture:
        width, height = picture.size
    assert width > 11 * 128 and 2 * 128 < height < 3 * 128


def test_mistakes_are_reported_in_one_line(run, photos, tmp_path, run_knn):
    data = ["--dataset=folder", f"--data_dir={photos}"]
    network = [f"--run_dir={run}"]
    flat = tmp_path / "flat"
    flat.mkdir()
    for path in (photos / "val" / "red").iterdir():
        (flat / path.name).write_bytes(path.read_bytes())
    Run(tmp_path / "new").begin({"run_dir": "new"})
    mistakes = {
        "--k=100: folder val is too small, as an image there has 15 neighbours": [*network, *data],
        "--k=25: folder train is too small, as an image there has 24 neighbours": [
            *network, *data, "--k=1,25", "--train_test"
        ],
        "--neighbours=16: folder val is too small, as an image there has 15 neighbours": [
            *network, *data, "--retrieve=1", "--neighbours=16"
        ],
        "--k=1,two: expected numbers of neighbours, such as 1,5,20": [*network, *data, "--k=1,two"],
        "--k=0: expected numbers of neighbours, such as 1,5,20": [*network, *data, "--k=0"],
        f"--run_dir={tmp_path / 'new'}: has no checkpoint yet": [f"--run_dir={tmp_path / 'new'}", *data],
        f"--run_dir={tmp_path / 'none'}: no such run or checkpoint": [f"--run_dir={tmp_path / 'none'}", *data],
        f"--compare={tmp_path / 'none'}: no such file or folder": [*network, *data, f"--compare={tmp_path / 'none'}"],
        f"--compare={tmp_path / 'new'}: has no checkpoint yet": [*network, *data, f"--compare={tmp_path / 'new'}"],
        "--dataset=folder: has no labels; expected a data set with classes, such as a folder with one folder of images "
        "per class": [*network, "--dataset=folder", f"--data_dir={flat}"],
        "--layers=conv6: no such layer; there are conv1, conv2, conv3, conv4, conv5": [
            *network, *data, "--layers=conv6"
        ],
        "--compare_layer=conv6: no such layer; there are conv1, conv2, conv3, conv4, conv5": [
            *network, *data, f"--compare={run}", "--compare_layer=conv6"
        ],
        "--compare_layer: needs --compare too": [*network, *data, "--compare_layer=conv5"],
        "--queries=blue/9.png: no such image in folder val; give the path of one, the end of its path, or a number": [
            *network, *data, "--queries=blue/9.png"
        ],
        "--queries=16: folder val has the images 0 to 15": [*network, *data, "--queries=0,16"],
        "--retrieve=17: folder val has only 16 images": [*network, *data, "--retrieve=17"],
        "--retrieve and --queries: give one of them": [*network, *data, "--retrieve=1", "--queries=1"],
        "--train_test: measures accuracy; --retrieve and --queries show neighbours within one set": [
            *network, *data, "--retrieve=1", "--train_test"
        ],
        "--layers=conv1,conv2: --retrieve and --queries show neighbours in a single layer; give one": [
            *network, *data, "--retrieve=1", "--layers=conv1,conv2"
        ],
        "--test_split: only for --train_test; for leave-one-out, give --split": [
            *network, *data, "--test_split=val"
        ],
        "--resize=20: smaller than the crop of 32 pixels": [*network, *data, "--resize=20"],
    }  # fmt: skip
    for (message, arguments), (code, stdout, stderr) in zip(mistakes.items(), run_knn(*mistakes.values()), strict=True):
        assert (code, stdout, stderr) == (2, "", f"lci_tf.knn: {message}\n"), arguments
