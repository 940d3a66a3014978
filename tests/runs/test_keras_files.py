"""Files that run a program when they are loaded, each of which really does."""

import json
import pathlib
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import tensorflow as tf

from lci_tf import models
from lci_tf.runs import keras_files, trained

# What a program of theirs does, so that it can be seen; here it is a lambda that gives zeros.
MARK = pathlib.Path("ran")


def network(*layers):
    return tf.keras.Sequential([tf.keras.Input([8, 8, 3]), *layers, tf.keras.layers.Conv2D(2, 3, name="conv")])


def harmful():
    return network(tf.keras.layers.Lambda(lambda x: (open("ran", "w").close(), x)[1]))  # noqa: PTH123


def changed(place, change, **files):
    """A `.keras` file with another configuration, and further files."""
    with zipfile.ZipFile(place) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(contents["config.json"])
    change(config)
    with zipfile.ZipFile(place, "w") as archive:
        for name, content in {**contents, "config.json": json.dumps(config), **files}.items():
            archive.writestr(name, content)


def by_suffix(folder, suffix):
    place = folder / f"model{suffix}"
    harmful().save(place)
    return place


def h5_under_another_name(folder):
    return by_suffix(folder, ".h5").rename(folder / "model.keras")


def names_a_function_of_python(folder):
    network(tf.keras.layers.Dense(2)).save(folder / "model.keras")

    def change(config):
        dense = next(layer for layer in config["config"]["layers"] if layer["class_name"] == "Dense")
        dense["config"]["activation"] = {"module": "pickle", "class_name": "function", "config": "loads",
                                         "registered_name": "loads"}  # fmt: skip

    changed(folder / "model.keras", change)
    return folder / "model.keras"


def names_a_writing_operation(folder):
    image = tf.keras.Input([8, 8, 3])
    tf.keras.Model(image, tf.math.abs(image)).save(folder / "model.keras")

    def change(config):
        operation = next(layer for layer in config["config"]["layers"] if layer["class_name"] == "TFOpLambda")
        operation["config"]["function"] = "io.write_file"

    changed(folder / "model.keras", change)
    return folder / "model.keras"


class _Touch:
    def __reduce__(self):
        return pathlib.Path.touch, (MARK,)


def has_pickled_weights(folder):
    network().save(folder / "model.keras")
    changed(folder / "model.keras", lambda config: None, **{"model.weights.npz": pickle.dumps(_Touch())})
    return folder / "model.keras"


@pytest.mark.parametrize(
    "make, holds",
    [
        (lambda folder: by_suffix(folder, ".h5"), ".h5 files, and all that are not .keras, may hold programs"),
        (lambda folder: by_suffix(folder, ""), "Keras's SavedModels may hold programs"),
        (h5_under_another_name, ".h5 files, and all that are not .keras, may hold programs"),
        (lambda folder: by_suffix(folder, ".keras"), "holds keras.layers Lambda"),
        (names_a_function_of_python, "holds pickle function loads"),
        (names_a_writing_operation, "TFOpLambda"),
        (has_pickled_weights, "holds pickled weights"),
    ],
    ids=["h5", "saved_model", "h5 called keras", "lambda", "function", "operation", "pickle"],
)
def test_no_program_is_loaded_without_trust(tmp_path, monkeypatch, refusal, make, holds):
    monkeypatch.chdir(tmp_path)
    place = make(tmp_path)
    MARK.unlink(missing_ok=True)
    message = refusal(trained.from_file, place)
    assert message.startswith(f"--model={place}: ") and holds in message and "--trust_model" in message, message
    assert not MARK.exists()


@pytest.mark.parametrize("suffix", [".h5", ".keras", ""])
def test_who_trusts_a_model_can_load_it(tmp_path, monkeypatch, suffix):
    monkeypatch.chdir(tmp_path)
    place = by_suffix(tmp_path, suffix)
    model = trained.from_file(place, trusted=True)
    assert model.maps(tf.zeros([1, 8, 8, 3]), training=False)["conv"].shape == [1, 6, 6, 2]


@pytest.mark.parametrize("make", ["alexnet_small", "resnet34", "operations", "applications"])
def test_networks_of_keras_and_of_this_package_need_no_trust(tmp_path, make):
    if make == "operations":
        image = tf.keras.Input([32, 32, 3])
        maps = tf.nn.l2_normalize(tf.concat([2 * image - 1, image[:, :, :, :1]], -1), axis=-1)
        model = tf.keras.Model(image, tf.keras.layers.Conv2D(2, 3, activation="relu", kernel_regularizer="l2")(maps))
        model.compile("adam", lambda truth, given: given)
    elif make == "applications":
        model = tf.keras.applications.MobileNetV3Small((32, 32, 3), 0.25, weights=None, include_top=False)
    else:
        model = models.classifier(make, 5, 64, 0.05)
    model.save(tmp_path / "model.keras")
    loaded = keras_files.load(tmp_path / "model.keras", False, "--model")
    for ours, theirs in zip(model.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_new_process_loads_alexnet_without_trust(tmp_path):
    """Its layer in two streams is ours, whether or not something has imported it before."""
    models.find_backbone("alexnet_small").features(width=0.05).save(tmp_path / "maps.keras")
    load = f"from lci_tf.runs import trained; print(trained.from_file({str(tmp_path / 'maps.keras')!r}).layers)"
    done = subprocess.run([sys.executable, "-c", load], capture_output=True, text=True)
    assert "conv5" in done.stdout, done.stderr
