import dataclasses

import numpy as np
import pytest

from lci_tf.config import probe_protocols
from lci_tf.data.source import PixelArray
from lci_tf.evaluation.probe import ridge, ridge_probe, tasks
from lci_tf.evaluation.probe.frozen import FrozenFeatures
from lci_tf.evaluation.results import SINGLE
from lci_tf.runs.trained import FeatureModel

NAMES = ("a", "b", "c")
PROTOCOL = probe_protocols.resolve("stl10", {"crop_size": 8, "resize": 8, "grid": 4, "batch_size": 16})


def noisy(count, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, count)
    signal = np.random.default_rng(99).normal(0, 12, [3, 8, 8, 3])[labels]
    pixels = (128 + signal + rng.normal(0, 30, [count, 8, 8, 3])).clip(0, 255).astype(np.uint8)
    return PixelArray(name="noisy", split=f"of {seed}", count=count, label_kind="class", label_names=NAMES,
                      pixels=pixels, labels=labels)  # fmt: skip


def units_of(source):
    """What `features` gives: pixels in [-1, 1], pooled to 4×4."""
    return (source.pixels / 127.5 - 1).reshape(-1, 4, 2, 4, 2, 3).mean(axis=(2, 4)).reshape(-1, 48).astype(np.float32)


@pytest.fixture
def features():
    model = FeatureModel(lambda images, training: {"conv1": images, "conv2": -images}, ("conv1", "conv2"), {})
    return FrozenFeatures(model, PROTOCOL)


def test_is_ridge_on_the_centre_crops(features):
    train, test = noisy(100, 0), noisy(50, 1)
    (found,), (regularisers,) = ridge_probe.probe(features, tasks.by_labels(train, test, PROTOCOL), seed=4)
    classifier, chosen = ridge.fit_best(units_of(train), train.labels, 4, ridge_probe.PER_FEATURE, channels=3)
    for layer in ("conv1", "conv2"):
        assert found[layer][SINGLE].value == classifier.accuracy(units_of(test), test.labels) > 0.5
        assert regularisers[layer] == chosen


def test_mirror_images_are_further_training_images(features):
    train, test = noisy(100, 0), noisy(50, 1)
    (found,), (regularisers,) = ridge_probe.probe(features, tasks.by_labels(train, test, PROTOCOL), seed=4, mirror=True)
    mirrored = dataclasses.replace(train, pixels=train.pixels[:, :, ::-1])
    x, y = np.concatenate([units_of(train), units_of(mirrored)]), np.tile(train.labels, 2)
    classifier, chosen = ridge.fit_best(x, y, 4, ridge_probe.PER_FEATURE, np.tile(np.arange(100), 2), 3)
    assert regularisers["conv1"] == chosen
    assert found["conv1"][SINGLE].value == classifier.accuracy(units_of(test), test.labels)
    assert found["conv1"][SINGLE].value != ridge.fit_best(units_of(train), train.labels, 4)[0].accuracy(
        units_of(test), test.labels
    )


def test_the_test_images_have_no_say(features):
    train, test = noisy(100, 0), noisy(50, 1)
    other = dataclasses.replace(test, labels=(test.labels + 1) % 3)
    found = [ridge_probe.probe(features, tasks.by_labels(train, each, PROTOCOL)) for each in (test, other)]
    ((first,), chosen), ((second,), chosen_again) = found
    assert chosen == chosen_again
    np.testing.assert_array_equal(
        first["conv1"][SINGLE].confusion[[2, 0, 1]], second["conv1"][SINGLE].confusion
    )  # the same answers, to other questions


def test_folds_share_the_features(features):
    train, test = noisy(100, 0), noisy(50, 1)
    folds = [np.arange(0, 60), np.array([99, 3, 50, 51, 7, 8, 20, 21, 22, 23, 24, 25])]
    found, regularisers = ridge_probe.probe(features, tasks.by_labels(train, test, PROTOCOL), 4, folds)
    assert len(found) == len(regularisers) == 2
    for fold, of_fold in zip(folds, found, strict=True):
        chosen = np.sort(fold)
        x, y = units_of(train)[chosen], train.labels[chosen]
        classifier, _ = ridge.fit_best(x, y, 4, ridge_probe.PER_FEATURE, channels=3)
        assert of_fold["conv1"][SINGLE].value == classifier.accuracy(units_of(test), test.labels)


def test_a_class_that_is_not_in_train_is_never_the_answer(features):
    train, test = noisy(100, 0), noisy(50, 1)
    train.labels[train.labels == 1] = 2
    (found,), _ = ridge_probe.probe(features, tasks.by_labels(train, test, PROTOCOL))
    confusion = found["conv1"][SINGLE].confusion
    assert confusion.shape == (3, 3) and confusion[:, 1].sum() == 0 and (confusion[:, [0, 2]].sum(axis=0) > 0).all()


def several(source):
    labels = np.stack([source.labels == i for i in range(3)], axis=1).astype(np.int8)
    return dataclasses.replace(source, label_kind="multi-label", labels=labels)


def test_several_labels(features):
    train, test = several(noisy(100, 0)), several(noisy(50, 1))
    (found,), _ = ridge_probe.probe(features, tasks.by_labels(train, test, PROTOCOL))
    assert found["conv1"][SINGLE].kind == "average precision"
    assert found["conv1"][SINGLE].value > 0.6


def test_labels_not_to_be_counted_are_refused(features, refusal):
    train, test = several(noisy(40, 0)), several(noisy(20, 1))
    train.labels[3, 1] = -1
    message = refusal(ridge_probe.fit_heads, features, tasks.by_labels(train, test, PROTOCOL))
    assert message.startswith("--solver=ridge: cannot leave out labels that do not count (-1)")
    assert message.endswith("use --solver=sgd")


def test_features_too_large_for_memory_are_refused(features, refusal):
    given = tasks.by_labels(noisy(40, 0), noisy(20, 1), PROTOCOL)
    message = refusal(ridge_probe.fit_heads, features, given, 0, None, 4 * 40 * 2 * 48 - 1)
    assert message.startswith("--solver=ridge: the features of 40 images take 0.0 GiB, more than")
    ridge_probe.fit_heads(features, given, limit=4 * 40 * 2 * 48)


def test_features_that_are_not_finite_are_refused(refusal):
    broken = FeatureModel(lambda images, training: {"conv1": images / 0.0}, ("conv1",), {})
    given = tasks.by_labels(noisy(40, 0), noisy(20, 1), PROTOCOL)
    assert refusal(ridge_probe.fit_heads, FrozenFeatures(broken, PROTOCOL), given).startswith(
        "conv1: its features are not finite"
    )
