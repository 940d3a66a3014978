"""What was made by version 0.1 keeps its meaning and its answers.

older.tar.xz was made by the last commit of 2026-11-18: a run of four steps on the synthetic data set that was killed
after its first checkpoint, at step 2; a probe and a fine-tuning in it, its SavedModel and Keras exports, a saved model
with the warp as a layer, and what the SavedModel answered to `known_picture`.
"""

import json
import pathlib
import tarfile

import numpy as np
import pytest
import tensorflow as tf

from lci_tf import load_features
from lci_tf.embedding import known_picture
from lci_tf.evaluation import results
from lci_tf.evaluation.finetune import finetune_results
from lci_tf.pretraining import training
from lci_tf.runs import Run, keras_files, trained
from lci_tf.runs.checkpoints import find_checkpoint
from lci_tf.serving.client.local import LocalModel


@pytest.fixture
def older(tmp_path):
    with tarfile.open(pathlib.Path(__file__).with_name("older.tar.xz")) as archive:
        archive.extractall(tmp_path, filter="data")
    flagfile = tmp_path / "run" / "run.flags"
    flagfile.write_text(flagfile.read_text().replace("=runs/one", f"={tmp_path / 'run'}"))
    return tmp_path


def test_a_run_in_which_f_and_d_had_one_depth_keeps_its_settings(older):
    settings = Run(older / "run").settings()
    assert (settings.inpainter_halvings, settings.discriminator_halvings, settings.resample) == (2, 2, "each")
    assert (settings.border, settings.noise_scale, settings.discriminator_pooling) == (2, 1.0, "average")
    assert (settings.discriminator_learning_rate, settings.adversarial_cosine) == (2e-4, False)
    learner = training.restored(find_checkpoint(older / "run", "--run_dir"))
    assert learner.inpainter.get_layer("conv3") and "conv4" not in [layer.name for layer in learner.inpainter.layers]


def test_it_resumes(older, run_command):
    flagfile = older / "run" / "run.flags"
    other, resumed = run_command("train", [f"--flagfile={flagfile}", "--resample=once"], [f"--flagfile={flagfile}"])
    assert other[0] == 2 and "was started with --resample=each, not --resample=once" in other[2], other[2]
    assert resumed[0] == 0 and "resuming at step 2 of 4" in resumed[2], resumed[2]
    assert [record["step"] for record in Run(older / "run").metrics() if "loss/border" in record] == [1, 2, 3, 4]


def test_exports_answer_as_they_did_and_as_their_run_does(older):
    picture, answers = known_picture.png(), json.loads((older / "answers.json").read_text())
    served = LocalModel(older / "export").predict([picture], ["embedding", "transformation"])
    for name, values in answers.items():
        np.testing.assert_allclose(served[name][0], values, atol=1e-6)

    images = tf.random.stateless_uniform([2, 32, 32, 3], [0, 1], -1.0, 1.0)
    of_run = trained.from_run(str(older / "run")).classifier
    of_file = tf.keras.models.load_model(older / "keras" / "classifier.keras")
    np.testing.assert_allclose(of_file(images)["logits"], of_run(images)["logits"], atol=1e-6)
    embeddings = [load_features(older / of)(127.5 * (images + 1)) for of in ("export", "run")]
    np.testing.assert_allclose(*embeddings, atol=1e-5)
    warp = keras_files.load(older / "keras" / "warp.keras", trusted=False, what="--model")  # of strength 0
    np.testing.assert_allclose(warp(images, training=True), images, atol=1e-5)


def test_results_are_shown(older):
    (path,) = (older / "run" / "probe").glob("*/results.json")
    found = json.loads(path.read_text())["layers"]
    assert f"{100 * found['conv1']['single_crop']['accuracy']:.1f}" in results.table(found)
    (path,) = (older / "run" / "finetune").glob("*/results.json")
    found = json.loads(path.read_text())
    assert f"{100 * found['single crop']['accuracy']:.1f}" in finetune_results.table(found)
