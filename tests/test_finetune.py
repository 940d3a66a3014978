"""The command, from a run and a folder of images to a classifier; and what it says to mistakes."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from lci_tf import models
from lci_tf.config import presets
from lci_tf.imaging import images
from lci_tf.runs import checkpoints, trained
from lci_tf.runs.run import Run

ROOT = pathlib.Path(__file__).parents[1]
COLOURS = {"blue": (60, 60, 190), "green": (60, 190, 60), "red": (190, 60, 60)}


def write_images(place, classes, count):
    rng = np.random.default_rng(0)
    for name in classes:
        (place / name).mkdir(parents=True)
        for i in range(count):
            pixels = rng.normal(COLOURS[name], 50, [40, 52, 3]).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(place / name / f"{i}.jpg")


def begin_run(path):
    run = Run(path)
    settings = presets.resolve("stl10", {"crop_size": 32, "width": 0.05})
    run.begin({**vars(settings), "dataset": "stl10"})
    run.describe({"labels": ["identity", "rot90"], "parameters": {"C": 1}})
    return run


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A run with a checkpoint and one without, and folders of images."""
    place = tmp_path_factory.mktemp("finetune")
    begin_run(place / "empty")
    saver = checkpoints.Checkpoints(begin_run(place / "run"), {
        "classifier": models.classifier("alexnet_small", 2, 32, width=0.05)
    })  # fmt: skip
    saver.restore_latest()
    saver.save(7)
    write_images(place / "images", COLOURS, 10)
    write_images(place / "flat", ["red"], 3)
    write_images(place / "unlike" / "train", ["red", "green"], 3)
    write_images(place / "unlike" / "test", ["red", "blue"], 3)
    return place


def python(*arguments):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=ROOT, env=environment)


@pytest.fixture(scope="module")
def finished(place):
    """What three flags do, and the folder that they leave."""
    result = python("-m", "lci_tf.finetune", f"--run_dir={place}/run", "--dataset=folder", f"--data_dir={place}/images")
    assert result.returncode == 0, result.stderr
    (folder,) = (place / "run" / "finetune").iterdir()
    return result.stdout, folder


def test_a_classifier_from_a_folder_of_images(finished):
    stdout, folder = finished
    assert "Accuracy in percent, on 6 images" in stdout and "These are the validation images" in stdout
    for name in ("results.json", "model.keras", "saved_model"):
        assert str(folder / name) in stdout
    assert {path.name for path in folder.iterdir()} == {
        "protocol.json", "results.json", "model.keras", "saved_model", "labels.txt", "confusion.png", "metrics.jsonl",
        "tensorboard", "training_images.png",
    }  # fmt: skip
    results = json.loads((folder / "results.json").read_text())
    assert results["single crop"]["accuracy"] > 0.8 and set(results["single crop"]["per_class"]) == set(COLOURS)
    assert results["network"]["step"] == 7 and len(results["network"]["digest"]) == 16
    assert results["data"]["train"] == {"split": "all", "images": 24}
    assert results["data"]["validation"] == {"split": "all", "images": 6} and results["data"]["test"] is None
    assert (results["protocol"]["crop_size"], results["protocol"]["resize"], results["seed"]) == (32, 48, 0)
    assert results["best_epoch"] <= results["epochs_trained"] <= 100
    assert (folder / "labels.txt").read_text() == "blue\ngreen\nred\n"


def test_the_two_models_agree(place, finished):
    _, folder = finished
    contents = [(place / "images" / name / "0.jpg").read_bytes() for name in COLOURS]
    served = tf.saved_model.load(str(folder / "saved_model")).signatures["serving_default"]
    answers = served(image_bytes=tf.constant(contents))
    assert answers["label"].numpy().tolist() == [b"blue", b"green", b"red"]
    crops = tf.concat(
        [images.preprocess(tf.constant(c), tf.constant(images.VIEWS["centre"]), 32, 48) for c in contents], 0
    )
    network = tf.keras.models.load_model(folder / "model.keras")
    np.testing.assert_allclose(network(crops)["probabilities"], answers["probabilities"], atol=1e-5)
    features = trained.from_file(folder / "model.keras", layers=["conv5"])  # for other commands: a supervised network
    np.testing.assert_allclose(features.maps(crops)["conv5"], network(crops)["conv5"], atol=1e-5)
    assert features.crop_size == 32


MISTAKES = {
    "--run_dir={place}/empty: has no checkpoint yet": "--run_dir={place}/empty --data_dir={place}/images",
    "--dataset=folder: has no labels; expected": "--run_dir={place}/run --data_dir={place}/flat",
    "--dataset=folder: train and test do not have the same classes, such as blue": (
        "--run_dir={place}/run --data_dir={place}/unlike"
    ),
    "--from_layer=conv9: no such layer; there are conv1, conv2, conv3, conv4, conv5, head": (
        "--run_dir={place}/run --data_dir={place}/images --from_layer=conv9"
    ),
    "--layers=conv9: no such layer; there are conv1": "--run_dir={place}/run --data_dir={place}/images --layers=conv9",
    "--layers: the new layers sit on one map": "--run_dir={place}/run --layers=conv1,conv2",
    "--from_layer: --random_init has learned nothing": "--run_dir={place}/run --random_init --from_layer=conv3",
    "--validation=0: folder has no test images": "--run_dir={place}/run --data_dir={place}/images --validation=0",
    "--labels_per_class=11: folder all has only 10 images of class blue": (
        "--run_dir={place}/run --data_dir={place}/images --labels_per_class=11"
    ),
    "--label_fraction and --labels_per_class: ": "--run_dir={place}/run --label_fraction=1 --labels_per_class=1",
    "--resize=30: smaller than the crop of 32 pixels": "--run_dir={place}/run --data_dir={place}/images --resize=30",
    "--out_dir={place}/images: is not empty, and not the folder of a fine-tuning": (
        "--run_dir={place}/run --data_dir={place}/images --out_dir={place}/images"
    ),
    "--out_dir={folder}: holds a fine-tuning with another protocol.epochs (100, and not 3)": (
        "--run_dir={place}/run --data_dir={place}/images --out_dir={folder} --epochs=3"
    ),
    "--layers: on which map shall the new layers sit? --model has conv1": (
        "--model={folder}/model.keras --data_dir={place}/images"
    ),
}
# All in one process, whose start would else take longer than what is asked of it.
SCRIPT = """
import json, sys
from lci_tf import cli, finetune
from lci_tf.errors import InputError

for line in json.loads(sys.argv[1]):
    cli.FLAGS.unparse_flags()
    for name in cli.FLAGS:
        cli.FLAGS[name].unparse()
    cli.FLAGS(["", "--dataset=folder", *line.split()])
    try:
        finetune.main()
    except InputError as error:
        print("MISTAKE", error)
"""


def test_mistakes_and_results_that_are_there_already(place, finished):
    stdout, folder = finished
    lines = [line.format(place=place, folder=folder) for line in MISTAKES.values()]
    done = f"--run_dir={place}/run --data_dir={place}/images"
    result = python("-c", SCRIPT, json.dumps([*lines, done]))
    assert result.returncode == 0, result.stderr
    printed = result.stdout.splitlines()
    for message, line in zip(MISTAKES, printed, strict=False):
        assert line.startswith("MISTAKE " + message.format(place=place, folder=folder))
    assert printed[len(lines) :] == stdout[stdout.index("Accuracy in percent") :].splitlines()
