"""The command, from a run and a folder of images to a classifier; and what it says to mistakes."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from lci_tf import models
from lci_tf.config import presets
from lci_tf.embedding.job import Job
from lci_tf.imaging import images
from lci_tf.runs import Run, checkpoints, trained
from lci_tf.serving import client
from lci_tf.serving.client.local import LocalModel

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
    shutil.copytree(place / "images", place / "relabelled")
    (place / "relabelled" / "red" / "9.jpg").rename(place / "relabelled" / "green" / "10.jpg")
    (place / "relabelled" / "green" / "9.jpg").rename(place / "relabelled" / "red" / "9.jpg")
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
    assert "WARNING" not in result.stderr  # as of a MirroredStrategy on a single CPU, about which nothing can be done
    (folder,) = (place / "run" / "finetune").iterdir()
    return result.stdout, folder


def test_a_classifier_from_a_folder_of_images(finished):
    stdout, folder = finished
    assert "Accuracy in percent, on 6 test images" in stdout
    assert "19 to train on, 5 to validate with, 6 to test on" in stdout
    for name in ("results.json", "model.keras", "export"):
        assert str(folder / name) in stdout
    assert {path.name for path in folder.iterdir()} == {
        "protocol.json", "results.json", "model.keras", "export", "labels.txt", "confusion.png", "metrics.jsonl",
        "tensorboard", "training_images.png",
    }  # fmt: skip
    results = json.loads((folder / "results.json").read_text())
    assert results["single_crop"]["accuracy"] > 0.8 and set(results["single_crop"]["per_class"]) == set(COLOURS)
    assert results["network"]["step"] == 7 and len(results["network"]["digest"]) == 16
    parts = {name: results["data"][name]["images"] for name in ("train", "validation", "test")}
    assert parts == {"train": 19, "validation": 5, "test": 6}  # a fifth to test with, whatever is trained on
    assert (results["protocol"]["crop_size"], results["protocol"]["resize"], results["seed"]) == (32, 48, 0)
    assert results["best_epoch"] <= results["epochs_trained"] <= 100
    assert (folder / "labels.txt").read_text() == "blue\ngreen\nred\n"


def test_the_two_models_agree(place, finished):
    _, folder = finished
    contents = [(place / "images" / name / "0.jpg").read_bytes() for name in COLOURS]
    served = tf.saved_model.load(str(folder / "export" / "1")).signatures["serving_default"]
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


def test_a_server_and_an_export_answer_alike(place, finished, stand_in):
    export_dir = finished[1] / "export"
    contents = [(place / "images" / name / "1.jpg").read_bytes() for name in COLOURS]
    asked = ["label", "labels", "probabilities"]
    expected = LocalModel(export_dir).predict(contents, asked)
    assert expected["label"].tolist() == list(COLOURS) and expected["labels"].tolist() == [list(COLOURS)] * 3
    with stand_in(features=export_dir) as ports:
        for server in (f"localhost:{ports['grpc']}", f"http://localhost:{ports['rest']}"):
            with client.connect(server) as classifier:
                found = classifier.predict(contents, asked)
            np.testing.assert_allclose(found["probabilities"], expected["probabilities"], atol=1e-5)
            for name in ("label", "labels"):
                assert found[name].tolist() == expected[name].tolist()


def test_text_is_no_feature(place, finished, tmp_path, refusal):
    options = {
        "dataset": "folder",
        "split": None,
        "data_dir": (str(place / "images"),),
        "server": None,
        "deadline": 9.0,
    }
    options |= {"model_name": "", "format": "npy", "batch_size": 4, "in_flight": 1, "shard_size": 9}
    job = Job(**options, model=str(finished[1] / "export"), features=("label",), out_dir=str(tmp_path))
    assert refusal(job.open) == "--features=label: is text; only numbers are kept, such as probabilities"


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
    "--layers: the new layers go on a single feature map": "--run_dir={place}/run --layers=conv1,conv2",
    "--from_layer: --random_init has no learned layers": "--run_dir={place}/run --random_init --from_layer=conv3",
    "--labels_per_class=11: folder all has only 8 images of class blue": (
        "--run_dir={place}/run --data_dir={place}/images --labels_per_class=11"
    ),
    "--label_fraction and --labels_per_class: ": "--run_dir={place}/run --label_fraction=1 --labels_per_class=1",
    "--batch_size=20: larger than the data set, as folder all has 19 images": (
        "--run_dir={place}/run --data_dir={place}/images --batch_size=20"
    ),
    "--resize=30: smaller than the crop of 32 pixels": "--run_dir={place}/run --data_dir={place}/images --resize=30",
    "--out_dir={place}/images: is not empty, and not the folder of a fine-tuning": (
        "--run_dir={place}/run --data_dir={place}/images --out_dir={place}/images"
    ),
    "--out_dir={folder}: holds a fine-tuning with another protocol.epochs (100, not 3)": (
        "--run_dir={place}/run --data_dir={place}/images --out_dir={folder} --epochs=3"
    ),
    "--out_dir={folder}: holds a fine-tuning with another data.": (
        "--run_dir={place}/run --data_dir={place}/relabelled --out_dir={folder}"
    ),
    "--layers: missing; give the feature map for the new layers, one of conv1": (
        "--model={folder}/model.keras --data_dir={place}/images"
    ),
}
# Few labels leave the images for testing as they are.
SMALL_MACHINE = "--run_dir={place}/run --data_dir={place}/images --epochs=2 --labels_per_class=2"
# All in one process, whose start would else take longer than what is asked of it.
SCRIPT = """
import json, sys
from lci_tf import cli, finetune
from lci_tf.errors import InputError
from lci_tf.training import memory

for line, bytes_of_memory in json.loads(sys.argv[1]):
    memory.machine_has = lambda: bytes_of_memory
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
    asked = [(SMALL_MACHINE.format(place=place), 2**20), *((line, 2**40) for line in [*lines, done])]
    result = python("-c", SCRIPT, json.dumps(asked))
    assert result.returncode == 0, result.stderr
    # What a fine-tuning prints before its first step, and that it does not fit.
    before, _, after = result.stdout.partition("MISTAKE --batch_size=3: takes about ")
    assert before.startswith("Fine-tuning 'few_labels'") and "3 to train on, 3 to validate with, 6 to test on" in before
    assert "of 0.0 GiB on this machine" in after.splitlines()[0]
    printed = after.splitlines()[1:]
    for message, line in zip(MISTAKES, printed, strict=False):
        assert line.startswith("MISTAKE " + message.format(place=place, folder=folder))
    assert printed[len(lines) :] == stdout[stdout.index("Accuracy in percent") :].splitlines()
