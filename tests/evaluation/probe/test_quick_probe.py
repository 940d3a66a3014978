import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf
from sklearn.metrics import average_precision_score
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from lci_tf.data import pipeline
from lci_tf.data.sets import synthetic
from lci_tf.data.source import PixelArray
from lci_tf.evaluation.probe.quick_probe import QuickProbe, table

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


def test_informative_features_beat_constant_ones(sources, capsys):
    shares = [dataclasses.replace(source, split="all") for source in sources]  # as of a folder without splits
    results = QuickProbe(*shares, CROPS, batch_size=50).probe(random_filters())
    bars = capsys.readouterr().err
    assert "features to train on" in bars and "features to test" in bars
    assert list(results) == ["conv1", "conv2"]
    assert results["conv1"]["ridge"] > 0.25 and results["conv1"]["knn"] > 0.17
    assert results["conv2"] == {"ridge": 0.1, "knn": 0.1}  # the same class for all


def test_several_labels_are_measured_by_average_precision(sources):
    def with_attributes(source):
        labels = np.stack([source.labels < 3, source.labels % 2 == 0, source.labels == 7], axis=1).astype(np.int8)
        labels[::9, 2] = -1  # not to be counted
        return dataclasses.replace(source, label_kind="multi-label", label_names=("a", "b", "c"), labels=labels)

    train, test = map(with_attributes, sources)
    probe = QuickProbe(train, test, CROPS, batch_size=50, grid=2)
    results = probe.probe(random_filters())
    assert probe.measure == "average precision"

    crops = [source.pixels[:, 16:80, 16:80].astype(np.float32) / 127.5 - 1 for source in (train, test)]
    maps = [random_filters()(crop)["conv1"].numpy() for crop in crops]
    (train_x, test_x) = (m.reshape([-1, 2, 8, 2, 8, 16]).mean(axis=(2, 4)).reshape([-1, 64]) for m in maps)
    scaler = StandardScaler().fit(train_x)
    neighbours = NearestNeighbors(n_neighbors=10, metric="cosine").fit(scaler.transform(train_x))
    found = neighbours.kneighbors(scaler.transform(test_x), return_distance=False)
    shares = (train.labels[found] == 1).mean(axis=1)
    expected = [
        average_precision_score(*(a[test.labels[:, i] >= 0, i] for a in (test.labels, shares))) for i in range(3)
    ]
    assert results["conv1"]["knn"] == pytest.approx(np.mean(expected), abs=0.01)
    shuffled = np.mean([np.mean(test.labels[test.labels[:, i] >= 0, i]) for i in range(3)])
    assert results["conv1"]["ridge"] > shuffled + 0.05
    assert results["conv2"]["ridge"] == pytest.approx(shuffled)  # what any order has


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
