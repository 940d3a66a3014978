"""`python -m lci_tf.probe --task=tiles` as users run it."""

import json
from typing import NamedTuple

import pytest
import tensorflow as tf

from lci_tf import models
from lci_tf.config import presets
from lci_tf.runs import Run, checkpoints


class Result(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def probe(run_command):
    def ask(*flags):
        (answer,) = run_command("probe", ["--task=tiles", *flags])
        return Result(*answer)

    return ask


@pytest.fixture(scope="module")
def seam_run(tmp_path_factory):
    run = Run(tmp_path_factory.mktemp("runs") / "seams")
    settings = presets.resolve("folder", {"crop_size": 32, "width": 0.05, "transforms": ("tiles",)})
    run.begin({**vars(settings), "dataset": "folder"})
    saver = checkpoints.Checkpoints(run, {"inpainter": models.inpainter(32, width=0.05)})
    saver.restore_latest()
    saver.save(1)
    return run.path


@pytest.fixture
def keras_model(tmp_path):
    inputs = tf.keras.Input([None, None, 3])
    outputs = tf.keras.layers.Conv2D(4, 3, 4, name="last")(inputs)
    tf.keras.Model(inputs, outputs).save(tmp_path / "model.keras")
    return tmp_path / "model.keras"


def assert_answered(result, out, layer):
    assert result.returncode == 0, result.stderr
    kept = json.loads((out / "results.json").read_text())
    assert kept["data"]["train"]["images"] + kept["data"]["test"]["images"] == 40
    assert kept["seams"]["seam"] == 2 and len(kept["seams"]["digest"]) == 16
    assert (out / "examples.png").exists()
    for question, answers in kept["layers"][layer].items():
        assert answers["test_images"] == 2 * kept["data"]["test"]["images"]
        (row,) = [line for line in result.stdout.splitlines() if line.startswith(f"  {question}")]
        assert row.split()[-1] == f"{100 * answers['accuracy']:.1f}"


def test_a_random_network_by_sgd_on_conv5(probe, photos, seam_run, tmp_path):
    flags = [
        "--random_init",
        "--width=0.05",
        "--epochs=1",
        "--batch_size=8",
        f"--seam_run_dir={seam_run}",
        "--dataset=folder",
    ]
    result = probe(*flags, f"--data_dir={photos}", f"--out_dir={tmp_path / 'out'}")
    assert_answered(result, tmp_path / "out", "conv5")


def test_any_network_in_closed_form(probe, photos, seam_run, keras_model, tmp_path):
    flags = [f"--model={keras_model}", "--solver=ridge", f"--seam_run_dir={seam_run}", "--dataset=folder"]
    result = probe(*flags, f"--data_dir={photos}", f"--out_dir={tmp_path / 'out'}")
    assert_answered(result, tmp_path / "out", "last")


MISTAKES = {
    "--seam_run_dir: --task=tiles needs an inpainter of seams": [],
    "--folds: only for --task=labels": ["--seam_run_dir=x", "--folds"],
    "--multi_crop: only for --task=labels": ["--seam_run_dir=x", "--multi_crop"],
    "--crop_size: with --task=tiles it is that of --seam_run_dir": ["--seam_run_dir=x", "--crop_size=64"],
    "--seam_run_dir: only for --task=tiles": ["--seam_run_dir=x", "--task=labels"],
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_reported_in_one_line(probe, message):
    result = probe("--random_init", *MISTAKES[message])
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.count("\n") == 1 and message in result.stderr
