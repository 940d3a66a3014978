"""Classifiers see their windows whole, and nothing beside them; and learn what can be seen there."""

import numpy as np
import pytest
import tensorflow as tf

from lci_tf.evaluation.locality import bags, telling
from lci_tf.evaluation.locality.pairs import Pairs
from lci_tf.evaluation.locality.telling import Budget


@pytest.mark.parametrize("window", [3, 5, 9, 17, 33])
def test_a_window_is_exactly_r_pixels_wide(window):
    tf.keras.utils.set_random_seed(window)
    network, step = bags.bag(window, 48), bags.step_between(window)
    images = np.random.default_rng(0).uniform(-1, 1, [4, 48, 48, 3]).astype(np.float32)
    before = network(images).numpy()
    rows, columns = before.shape[1:]
    assert (rows - 1) * step + window <= 48 < rows * step + window  # as many windows as there is room for
    row, column = rows // 2, columns - 1
    top, left = row * step, column * step
    inside = np.zeros([48, 48], bool)
    inside[top : top + window, left : left + window] = True

    elsewhere = np.where(inside[..., np.newaxis], images, -images)
    after = network(elsewhere).numpy()
    np.testing.assert_array_equal(after[:, row, column], before[:, row, column])
    assert (after != before).sum() >= min(4, before.size - 4)  # and it does change what other windows see

    with tf.GradientTape() as tape:
        seen = tf.constant(images)
        tape.watch(seen)
        evidence = network(seen)[:, row, column]
    counts = np.abs(tape.gradient(evidence, seen)).max(axis=(0, 3)) > 0
    np.testing.assert_array_equal(counts, inside)


def noise(n, size=24, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, [n, size, size, 3])


def softened(images):
    return sum(np.roll(images, shift, axis=(1, 2)) for shift in [(0, 0), (0, 1), (1, 0), (1, 1)]) / 4


def accuracy(natural, transformed, window=3, steps=60):
    pairs = Pairs(natural.astype(np.float16), transformed.astype(np.float16))
    train, test = Pairs(*(stack[:96] for stack in pairs)), Pairs(*(stack[96:] for stack in pairs))
    network = telling.learn(window, train, Budget(steps=steps), seed=0)
    return telling.summary(telling.ask(network, test))["accuracy"]


def test_windows_of_three_pixels_tell_softness():
    images = noise(160)
    low = images * 0.5
    assert accuracy(low, softened(low)) > 0.95


def test_windows_cannot_recognise_arrangements():
    """A bright stripe and a dark one change places. Between and beside them is more grey than a window sees across."""
    grey, stripes = np.zeros([160, 30, 6, 3]), noise(160, size=30) / 2
    bright, dark = stripes[:, :, :6] + 0.5, stripes[:, :, 6:12] - 0.5
    one, other = (np.concatenate([grey, a, grey, b, grey], axis=2) for a, b in [(bright, dark), (dark, bright)])
    assert abs(accuracy(one, other, window=5) - 0.5) < 0.15
    assert accuracy(one, other, bags.WHOLE) > 0.9


def test_rotated_noise_cannot_be_recognised():
    images = noise(160)
    for window in (3, bags.WHOLE):
        assert abs(accuracy(images, images[:, ::-1, ::-1], window) - 0.5) < 0.15


def test_c_s_labels_of_a_transformation_count_as_one_class():
    logits = np.log([[0.4, 0.2, 0.2, 0.2], [0.25, 0.35, 0.35, 0.05], [0.25, 0.0001, 0.0001, 0.7498]])
    classifier = lambda images, training: {"logits": tf.constant(logits)}  # noqa: E731
    evidence = telling.by_classifier(classifier, [1, 2])(None).numpy()
    assert evidence.shape == (3, 1, 1)
    np.testing.assert_allclose(evidence[:, 0, 0], np.log([0.2 / 0.4, 0.35 / 0.25, 0.0001 / 0.25]), rtol=1e-6)
