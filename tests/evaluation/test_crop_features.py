import dataclasses
import shutil
import types

import numpy as np
import pytest
import tensorflow as tf

from lci_tf.data import pipeline
from lci_tf.data.input_report import InputReport
from lci_tf.data.sets import folder
from lci_tf.evaluation.crop_features import crop_features
from lci_tf.imaging import images

CROPS = pipeline.Crops(crop_size=8, resize=12)


def model():
    """`first` has a map of 6 × 6; `last` is the crop itself, unless in training mode."""
    crop = tf.keras.Input([8, 8, 3])
    first = tf.keras.layers.Conv2D(4, 3, kernel_initializer=tf.keras.initializers.RandomNormal(seed=1))(crop)
    return tf.keras.Model(crop, {"first": first, "last": tf.keras.layers.Dropout(0.9)(crop)})


def read(source, tmp_path, network=None, views="five", batch_size=4, max_bad_images=0.01, **options):
    report = InputReport(source, max_bad_images)
    return crop_features(network or model(), source, CROPS, views, batch_size, report, tmp_path / "new", **options)


@pytest.fixture
def photos(tmp_path, write_png):
    stored = [write_png(f"photos/{name}/{i}.png", 12 + i, 15) for name in ("cat", "dog") for i in range(3)]
    return folder.open_folder(tmp_path / "photos", split="all"), stored


@pytest.mark.parametrize(("views", "batch_size"), [("five", 4), ("centre", 64)])
def test_features_of_all_crops_one_after_the_other(photos, tmp_path, views, batch_size):
    source, stored = photos
    network = model()
    found = read(source, tmp_path, network, views, batch_size)
    assert list(found.layers) == ["first", "last"]
    for i, image in enumerate(stored):
        crops = images.preprocess(tf.constant(image), tf.constant(images.VIEWS[views]), 8, 12)
        for layer, maps in network(crops, training=False).items():
            np.testing.assert_allclose(found.layers[layer][i : i + 1][0], np.ravel(maps), atol=1e-6)
    assert found.layers["first"].shape == (6, len(images.VIEWS[views]) * 6 * 6 * 4)
    np.testing.assert_array_equal(found.numbers, range(6))
    np.testing.assert_array_equal(found.labels, [0, 0, 0, 1, 1, 1])


def test_unreadable_images_are_left_out(photos, tmp_path):
    source, stored = photos
    (tmp_path / "photos" / "cat" / "1.png").write_bytes(b"not an image")
    found = read(source, tmp_path, views="centre", max_bad_images=1)
    np.testing.assert_array_equal(found.numbers, [0, 2, 3, 4, 5])
    np.testing.assert_array_equal(found.labels, [0, 0, 1, 1, 1])
    assert len(found.layers["last"]) == 5
    whole = images.preprocess(tf.constant(stored[2]), tf.constant(images.VIEWS["centre"]), 8, 12)
    np.testing.assert_allclose(found.layers["last"][1:2][0], np.ravel(whole), atol=1e-6)


def test_images_without_labels(photos, tmp_path):
    labelled = dataclasses.replace(photos[0], labels=np.array([0, -1, 0, 1, 1, -1]))
    found = read(labelled, tmp_path, only_labelled=True)
    np.testing.assert_array_equal(found.numbers, [0, 2, 3, 4])
    np.testing.assert_array_equal(found.labels, [0, 0, 1, 1])
    unlabelled = dataclasses.replace(photos[0], labels=None, label_kind="none", label_names=())
    found = read(unlabelled, tmp_path)
    assert found.labels is None and len(found.numbers) == 6


def test_what_cannot_be_used_is_reported_in_one_line(photos, tmp_path, refusal, monkeypatch):
    def diverged(crops, training):
        return {"conv5": tf.math.log(crops - 2.0)}

    assert refusal(read, photos[0], tmp_path, diverged) == (
        "conv5: its features are not finite; did the training of this network diverge?"
    )
    for_larger = tf.keras.Sequential([tf.keras.Input([16, 16, 3]), tf.keras.layers.Conv2D(1, 3)])
    message = refusal(read, photos[0], tmp_path, lambda crops, training: {"conv5": for_larger(crops)})
    assert message == "--crop_size=8: the network does not accept images of this size"
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: types.SimpleNamespace(free=1000))
    message = "features of 6 images take another 0.0 GB for a while, but only 0.0 GB are free; choose another --out_dir"
    assert refusal(read, photos[0], tmp_path) == f"{tmp_path / 'new'}: {message}"
