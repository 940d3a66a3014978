"""From files to accuracies, beside scikit-learn on features that were computed one image at a time."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from lci_tf.data import pipeline
from lci_tf.data.source import PixelArray
from lci_tf.evaluation.neighbours import knn_evaluation
from lci_tf.evaluation.neighbours.knn_evaluation import KnnProtocol, Network, evaluate
from lci_tf.imaging import images
from lci_tf.runs import trained

KS = (1, 2, 5)


def blotches(count, seed, split):
    """Three classes with a tint each, and some images twice."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, count)
    pixels = rng.integers(0, 150, [count, 12, 14, 3], np.uint8)
    pixels[np.arange(count), :, :, labels] += 20
    pixels[-3:], labels[-3:] = pixels[:3], labels[:3]
    return PixelArray(name="blotches", split=split, count=count, label_kind="class", label_names=("a", "b", "c"),
                      pixels=pixels, labels=labels)  # fmt: skip


@pytest.fixture(scope="module")
def sources():
    return blotches(60, 1, "train"), blotches(40, 2, "test")


@pytest.fixture(scope="module")
def network():
    tf.keras.utils.set_random_seed(0)
    crop = tf.keras.Input([8, 8, 3])
    conv1 = tf.keras.layers.Conv2D(4, 3, activation="relu")(crop)
    maps = tf.keras.Model(crop, {"conv1": conv1, "conv2": tf.keras.layers.Conv2D(6, 3, activation="relu")(conv1)})
    model = trained.FeatureModel(maps, ("conv1", "conv2"), {"model": "own"})
    return Network("own", model, pipeline.Crops(crop_size=8, resize=12))


@pytest.fixture
def protocol(tmp_path):
    return KnnProtocol("five", faiss=False, seed=0, batch_size=16, max_bad_images=0.01, folder=tmp_path)


def features_one_by_one(network, source, layer):
    views = tf.constant(images.VIEWS["five"])
    crops = [images.preprocess(tf.constant(image), views, 8, 12) for image in source.pixels]
    return np.stack([np.ravel(network.model.maps(c)[layer]) for c in crops]).astype(np.float64)


def test_leaving_one_out(network, sources, protocol):
    source = dataclasses.replace(sources[0], labels=np.where(np.arange(60) % 10 == 7, -1, sources[0].labels))
    accuracies, counts = evaluate(network, source, None, protocol, KS)
    assert list(accuracies) == ["conv1", "conv2"] and counts == [54]
    counted = source.labels >= 0
    y = source.labels[counted]
    for layer, by_k in accuracies.items():
        x = StandardScaler().fit_transform(features_one_by_one(network, source, layer)[counted])
        for k in KS:
            theirs = KNeighborsClassifier(k, metric="cosine", algorithm="brute").fit(x, y).predict(None)
            assert by_k[k] == np.mean(theirs == y)
    assert 0.4 < accuracies["conv1"][5] < 1, "neither guessed nor trivial"


def test_train_and_test(network, sources, protocol):
    accuracies, counts = evaluate(network, *sources, protocol, KS)
    assert counts == [60, 40]
    for layer, by_k in accuracies.items():
        train_x, test_x = (features_one_by_one(network, source, layer) for source in sources)
        scaler = StandardScaler().fit(train_x)
        for k in KS:
            theirs = KNeighborsClassifier(k, metric="cosine", algorithm="brute")
            theirs.fit(scaler.transform(train_x), sources[0].labels)
            assert by_k[k] == theirs.score(scaler.transform(test_x), sources[1].labels)


def test_a_set_smaller_than_k(network, sources, protocol, refusal, monkeypatch):
    message = refusal(evaluate, network, sources[0], None, protocol, (1, 60))
    assert message == "--k=60: blotches train is too small, as an image there has 59 neighbours"
    message = refusal(evaluate, network, *sources, protocol, (1, 61))
    assert message == "--k=61: blotches train is too small, as an image there has 60 neighbours"
    unlabelled = dataclasses.replace(sources[0], labels=np.where(np.arange(60) < 20, sources[0].labels, -1))
    message = refusal(evaluate, network, unlabelled, None, protocol, (1, 20))
    assert message == "--k=20: blotches train is too small, as an image there has 19 neighbours"


def test_batch_norm_of_a_random_network_is_calibrated_first(sources, protocol, monkeypatch):
    monkeypatch.setattr(trained, "BATCHES_SEEN", 3)
    model = trained.random("alexnet_small", width=0.05).only(["conv1"])
    network = Network("random", model, pipeline.Crops(8, 12))
    before = [weight.numpy() for weight in model.maps.non_trainable_weights]
    knn_evaluation.calibrate_batch_norm(network, sources[0], protocol)
    moved = [np.abs(b - a).max() for b, a in zip(before, model.maps.non_trainable_weights, strict=True)]
    assert len(moved) == 2 and min(moved) > 0
    settled = dataclasses.replace(network, model=dataclasses.replace(model, origin={"run": "one"}))
    before = [weight.numpy() for weight in model.maps.non_trainable_weights]
    knn_evaluation.calibrate_batch_norm(settled, sources[0], protocol)
    for weight, was in zip(model.maps.non_trainable_weights, before, strict=True):
        np.testing.assert_array_equal(weight, was)
