"""Every loss against a transcription of its equation into NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from lci_tf.pretraining import losses

RNG = np.random.default_rng(0)


def patches():
    return RNG.uniform(-1, 1, [4, 8, 8, 3]).astype(np.float32)


def test_classification_is_the_mean_cross_entropy():
    logits = RNG.normal(size=[12, 6]).astype(np.float32)
    labels = RNG.integers(0, 6, 12)
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    expected = -np.mean(np.log(probabilities[np.arange(12), labels]))
    np.testing.assert_allclose(losses.classification(logits, tf.constant(labels, tf.int32)), expected, rtol=1e-5)


def test_hinge():
    real, fake = np.array([[2.0], [0.5], [-1.0]], np.float32), np.array([[-3.0], [0.0], [0.25]], np.float32)
    expected = (0 + 0.5 + 2) / 3 + (0 + 1 + 1.25) / 3
    np.testing.assert_allclose(losses.discriminator_hinge(real, fake), expected, rtol=1e-6)
    np.testing.assert_allclose(losses.inpainter_hinge(fake), 2.75 / 3, rtol=1e-6)


@pytest.mark.parametrize("border", [1, 3])
def test_border_is_the_mean_over_the_borders_own_pixels(border):
    r, e = patches(), patches()
    mask = np.zeros([8, 8, 1], np.float32)
    mask[border:-border, border:-border] = 1
    on_border = [
        (r[n, i, j] - e[n, i, j]) ** 2
        for n in range(4)
        for i in range(8)
        for j in range(8)
        if min(i, j) < border or max(i, j) >= 8 - border
    ]
    np.testing.assert_allclose(losses.border(r, e, mask), np.mean(on_border), rtol=1e-5)


def test_the_centre_does_not_count_as_border():
    r, mask = patches(), np.zeros([8, 8, 1], np.float32)
    mask[2:-2, 2:-2] = 1
    e = np.where(mask, patches(), r)
    assert losses.border(r, e, mask) == 0


def test_autoencoding_is_the_mean_over_the_patch():
    f, e = patches(), patches()
    np.testing.assert_allclose(losses.autoencoding(f, e), np.mean((f - e) ** 2), rtol=1e-5)
