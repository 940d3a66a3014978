import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from lci_tf.data import pipeline, synthetic
from lci_tf.data.source import PixelArray
from lci_tf.transfer.quick_probe import QuickProbe, open_labelled, table

CROPS = pipeline.Crops(crop_size=64, resize=96)


def scenes(count, seed):
    labels = np.arange(count, dtype=np.int64) % 10
    return PixelArray(name="synthetic", split=f"seed {seed}", count=count, label_kind="class",
                      label_names=synthetic.CLASSES, pixels=synthetic.draw(labels, seed), labels=labels)  # fmt: skip


@pytest.fixture(scope="module")
def sources():
    return scenes(400, seed=1), scenes(200, seed=2)


def random_filters(bad_layer=False):
    image = tf.keras.Input([64, 64, 3])
    filters = tf.keras.initializers.GlorotUniform(seed=0)
    conv1 = tf.keras.layers.Conv2D(16, 7, 4, "same", activation="relu", kernel_initializer=filters)(image)
    constant = tf.keras.layers.Lambda(lambda x: 0 * x)(conv1)
    maps = {"conv1": conv1, "conv2": tf.math.log(constant) if bad_layer else constant}
    return tf.keras.Model(image, maps)


def test_tells_features_from_nothing(sources):
    results = QuickProbe(*sources, CROPS, batch_size=50).probe(random_filters())
    assert list(results) == ["conv1", "conv2"]
    assert results["conv1"]["ridge"] > 0.25 and results["conv1"]["knn"] > 0.17
    assert results["conv2"] == {"ridge": 0.1, "knn": 0.1}  # the same class for all


def test_can_be_asked_again(sources):
    probe, model = QuickProbe(*sources, CROPS, limit=100), random_filters()
    first = probe.probe(model)
    assert probe.probe(model) == first
    model.layers[1].kernel.assign(tf.zeros_like(model.layers[1].kernel))
    assert probe.probe(model)["conv1"] == first["conv2"] != first["conv1"]


def test_features_that_are_not_finite_are_no_end(sources, caplog):
    train, test = sources
    results = QuickProbe(train, test, CROPS, limit=50).probe(random_filters(bad_layer=True))
    assert math.isnan(results["conv2"]["ridge"]) and math.isnan(results["conv2"]["knn"])
    assert not math.isnan(results["conv1"]["ridge"])
    assert "conv2: features are not finite" in caplog.text


def test_the_limit_holds(sources):
    seen = []

    def spy(images, training):
        tf.py_function(lambda n: seen.append(int(n)), [tf.shape(images)[0]], [])
        return {"conv1": images}

    QuickProbe(*sources, CROPS, limit=100).probe(spy)
    assert abs(sum(seen) - 200) <= 4


def test_table():
    results = {"conv1": {"ridge": 0.4842, "knn": 0.3}, "conv10": {"ridge": 1.0, "knn": float("nan")}}
    assert table(results).splitlines() == [
        "%        conv1  conv10",
        "ridge     48.4   100.0",
        "knn       30.0     nan",
    ]


def write_images(place, classes, count=2):
    for name in classes:
        (place / name).mkdir(parents=True)
        for i in range(count):
            Image.fromarray(np.zeros([8, 8, 3], np.uint8)).save(place / name / f"{i}.png")


@pytest.mark.parametrize(
    ("splits", "expected"),
    [
        (("train", "test"), ("train", "test")),
        (("train", "val"), ("train", "val")),
        (("train", "validation", "val", "test"), ("train", "test")),
    ],
)
def test_the_data_sets_own_splits(tmp_path, splits, expected):
    for split in splits:
        write_images(tmp_path / split, ["cat", "dog"])
    train, test = open_labelled("folder", [tmp_path])
    assert (train.split, test.split) == expected


def test_a_split_without_labels_is_passed_over(tmp_path):
    write_images(tmp_path / "train", ["cat", "dog"])
    write_images(tmp_path / "test", ["."])
    write_images(tmp_path / "val", ["cat", "dog"])
    assert [source.split for source in open_labelled("folder", [tmp_path])] == ["train", "val"]


def test_not_the_unlabelled_images_of_stl10(tmp_path):
    rng = np.random.default_rng(0)
    for name, count in (("unlabeled", 3), ("train", 20), ("test", 10)):
        rng.integers(0, 256, [count, 3, 96, 96], np.uint8).tofile(tmp_path / f"{name}_X.bin")
        (np.arange(count) % 10 + 1).astype(np.uint8).tofile(tmp_path / f"{name}_y.bin")
    train, test = open_labelled("stl10", [tmp_path])
    assert (train.split, train.count, test.split, test.count) == ("train", 20, "test", 10)


@pytest.mark.parametrize("split", ["", "train", "test"])
def test_a_single_split_is_shared_out(tmp_path, split):
    write_images(tmp_path / split, ["cat", "dog"], count=50)
    train, test = open_labelled("folder", [tmp_path])
    places = [[source.where(i) for i in range(source.count)] for source in (train, test)]
    assert not set(places[0]) & set(places[1])
    assert len(places[0]) + len(places[1]) == 100
    assert 9 <= sum("/cat/" in place for place in places[1]) <= 11
    assert 9 <= sum("/dog/" in place for place in places[1]) <= 11


def test_secret_labels_are_none(tmp_path, monkeypatch):
    labelled = scenes(10, seed=3)
    secret = dataclasses.replace(labelled, labels=np.full(10, -1), split="test")
    monkeypatch.setitem(
        open_labelled.__globals__["data"].DATASETS,
        "synthetic",
        lambda data_dir: {"train": lambda: labelled, "test": lambda: secret, "validation": lambda: labelled},
    )
    _, test = open_labelled("synthetic")
    assert test is labelled


def test_refuses_what_it_cannot_do(tmp_path, refusal):
    write_images(tmp_path / "flat", ["."])
    message = refusal(open_labelled, "folder", [tmp_path / "flat"])
    assert message.startswith("--probe_dataset=folder: has no labels; ")

    write_images(tmp_path / "other" / "train", ["cat", "dog"])
    write_images(tmp_path / "other" / "test", ["cat", "horse"])
    message = refusal(open_labelled, "folder", [tmp_path / "other"])
    assert message == "--probe_dataset=folder: train and test do not have the same classes, such as dog"

    assert refusal(open_labelled, "stl11").startswith("--probe_dataset=stl11: --dataset=stl11: unknown")


def test_refuses_several_labels_per_image(tmp_path, refusal):
    (tmp_path / "attributes.csv").write_text("split,file,smiling\ntrain,1.jpg,0\nval,2.jpg,1\n")
    message = refusal(open_labelled, "celeb_a", [tmp_path])
    assert message.startswith("--probe_dataset=celeb_a: several labels per image")
