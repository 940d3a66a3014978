"""What was made by earlier versions keeps its meaning and its answers.

older.tar.xz was made by version 0.1, when C's modules lay elsewhere in the package: a run of two steps on the synthetic
data set with a probe in it, its SavedModel and Keras exports, a saved model with the warp as a layer, and what the
SavedModel answered to `known_picture`.
"""

import json
import pathlib
import re
import tarfile

import numpy as np
import pytest
import tensorflow as tf

from lci_tf.embedding import known_picture
from lci_tf.evaluation import results
from lci_tf.pretraining import training
from lci_tf.runs import Run, trained
from lci_tf.runs.checkpoints import find_checkpoint
from lci_tf.serving.client.local import LocalModel

LATER = ("inpainter_halvings", "discriminator_halvings", "resample")


@pytest.fixture
def older(tmp_path):
    with tarfile.open(pathlib.Path(__file__).with_name("older.tar.xz")) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def test_a_run_in_which_f_and_d_had_one_depth_loads_and_resumes(older, run_command):
    path = older / "run"
    written = (path / "run.flags").read_text()
    without = re.sub(rf"--({'|'.join(LATER)})=.*\n", "", written).replace("=runs/one", f"={path}")
    assert without.count("\n") == written.count("\n") - 3
    (path / "run.flags").write_text(without + "--deep_inpainter=false\n")

    settings = Run(path).settings()
    assert (settings.inpainter_halvings, settings.discriminator_halvings, settings.resample) == (2, 2, "each")
    learner = training.restored(find_checkpoint(path, "--run_dir"))
    assert learner.inpainter.get_layer("conv3") and "conv4" not in [layer.name for layer in learner.inpainter.layers]

    again, other = run_command(
        "train",
        [f"--flagfile={path}/run.flags"],
        [f"--flagfile={path}/run.flags", "--resample=once"],
    )
    assert again[0] == 0 and "is finished: 2 steps" in again[2], again[2]
    assert other[0] == 2 and "was started with --resample=each, not --resample=once" in other[2], other[2]


def test_exports_answer_as_they_did_and_as_their_run_does(older):
    picture, answers = known_picture.png(), json.loads((older / "answers.json").read_text())
    served = LocalModel(older / "export").predict([picture], ["embedding", "transformation"])
    for name, values in answers.items():
        np.testing.assert_allclose(served[name][0], values, atol=1e-6)

    images = tf.random.stateless_uniform([2, 32, 32, 3], [0, 1], -1.0, 1.0)
    of_run = trained.from_run(str(older / "run")).classifier
    of_file = tf.keras.models.load_model(older / "keras" / "classifier.keras")
    np.testing.assert_allclose(of_file(images)["logits"], of_run(images)["logits"], atol=1e-6)
    warp = tf.keras.models.load_model(older / "keras" / "warp.keras")  # of strength 0
    np.testing.assert_allclose(warp(images, training=True), images, atol=1e-5)


def test_results_are_shown(older):
    (path,) = (older / "run" / "probe").glob("*/results.json")
    assert "100.0" in results.table(json.loads(path.read_text())["layers"])
