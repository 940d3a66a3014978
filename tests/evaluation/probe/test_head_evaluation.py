import numpy as np
import pytest
import tensorflow as tf

from lci_tf.config import probe_protocols
from lci_tf.evaluation.probe.frozen import FrozenFeatures
from lci_tf.evaluation.probe.head_evaluation import evaluate_heads
from lci_tf.evaluation.probe.tasks import Task
from lci_tf.evaluation.results import MULTI, SINGLE
from lci_tf.runs.trained import FeatureModel

KERNEL = np.random.default_rng(1).normal(size=[12, 3]).astype(np.float32)


@pytest.fixture
def features():
    """The pixels of images of 8×8, pooled to 2×2."""
    model = FeatureModel(lambda images, training: {"conv1": images}, ("conv1",), {})
    return FrozenFeatures(model, probe_protocols.resolve("stl10", {"crop_size": 8, "grid": 2}))


def linear(units):
    return {"conv1": 20 * tf.matmul(units["conv1"], KERNEL)}


def task_with(images, labels, valid=None, batch=4):
    """A test of these images, [n, views, 8, 8, 3]."""
    valid = np.ones(len(labels), bool) if valid is None else valid

    def test():
        return tf.data.Dataset.from_tensor_slices({"image": images, "label": labels, "valid": valid}).batch(batch)

    kind = "class" if labels.ndim == 1 else "multi-label"
    return Task(label_kind=kind, label_names=("a", "b", "c"), count=0, test_count=len(labels), train=None,
                train_once=None, test=test)  # fmt: skip


def logits_in_numpy(images):
    n, views = images.shape[:2]
    pooled = images.reshape(n, views, 2, 4, 2, 4, 3).mean(axis=(3, 5)).reshape(n, views, 12)
    return 20 * pooled @ KERNEL


def images_of(n, views):
    return np.random.default_rng(0).uniform(-1, 1, [n, views, 8, 8, 3]).astype(np.float32)


def test_the_mean_of_softmax_over_crops(features):
    images, labels = images_of(60, 10), np.random.default_rng(2).integers(0, 3, 60)
    (found,) = evaluate_heads(features, [linear], task_with(images, labels), are_logits=True)
    logits = logits_in_numpy(images)
    softmax = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    of_softmax = softmax.mean(axis=1).argmax(axis=1)
    assert (of_softmax != logits.mean(axis=1).argmax(axis=1)).any()  # or this would tell nothing
    assert found["conv1"][MULTI].value == np.mean(of_softmax == labels)
    assert found["conv1"][SINGLE].value == np.mean(logits[:, 0].argmax(axis=1) == labels)
    expected = np.zeros([3, 3], int)
    np.add.at(expected, (labels, of_softmax), 1)
    np.testing.assert_array_equal(found["conv1"][MULTI].confusion, expected)


def test_the_mean_of_scores_for_several_labels(features):
    from sklearn.metrics import average_precision_score

    images, labels = images_of(40, 2), np.random.default_rng(2).integers(0, 2, [40, 3]).astype(np.int8)
    (found,) = evaluate_heads(features, [linear], task_with(images, labels), are_logits=True)
    scores = logits_in_numpy(images).mean(axis=1)
    expected = [average_precision_score(labels[:, i], scores[:, i]) for i in range(3)]
    np.testing.assert_allclose(found["conv1"][MULTI].per_class, expected, rtol=1e-6)
    assert found["conv1"][MULTI].value == pytest.approx(np.mean(expected))


def test_one_view_has_no_second_figure(features):
    (found,) = evaluate_heads(features, [linear], task_with(images_of(3, 1), np.arange(3)), are_logits=True)
    assert list(found["conv1"]) == [SINGLE]


def test_images_that_cannot_be_read_or_have_no_class_are_left_out(features):
    images = images_of(9, 1)
    labels = logits_in_numpy(images)[:, 0].argmax(axis=1)
    wrong = (labels + 1) % 3
    wrong[[0, 8]] = labels[[0, 8]]
    wrong[3] = -1
    valid = np.isin(np.arange(9), [0, 3, 8])
    (found,) = evaluate_heads(features, [linear], task_with(images, wrong, valid), are_logits=True)
    assert (found["conv1"][SINGLE].value, found["conv1"][SINGLE].count) == (1.0, 2)


def test_several_heads_share_a_pass(features):
    calls = []

    def counting(units):
        calls.append(1)
        return linear(units)

    def reverse(units):
        return {"conv1": -linear(units)["conv1"]}

    images = images_of(8, 1)
    labels = logits_in_numpy(images)[:, 0].argmax(axis=1)
    first, second = evaluate_heads(features, [counting, reverse], task_with(images, labels), are_logits=True)
    assert first["conv1"][SINGLE].value == 1.0 and second["conv1"][SINGLE].value == 0.0
    assert len(calls) == 1  # traced, not called batch by batch
