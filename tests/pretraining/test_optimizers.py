"""AdamW and the schedules against the formulas of their papers, in NumPy."""

import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf

from lci_tf.config import presets
from lci_tf.pretraining import optimizers

STEPS = 10
SETTINGS = presets.resolve("stl10", {})


def rate_of(step, first=3e-4, last=3e-7):
    return last + (first - last) * 0.5 * (1 + math.cos(math.pi * step / STEPS))


def adamw(weight, gradients, decay):
    """Loshchilov and Hutter, algorithm 2, with the schedule multiplier η_t on the decay as on the step."""
    m = v = np.zeros_like(weight)
    for t, g in enumerate(gradients, 1):
        rate = rate_of(t - 1)
        m, v = 0.5 * m + 0.5 * g, 0.99 * v + 0.01 * g**2
        step = rate * (m / (1 - 0.5**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-8)
        weight = weight - step - decay * rate / rate_of(0) * weight
    return weight


@pytest.mark.parametrize("name, decay", [("conv1/kernel", 1e-4), ("bn1/gamma", 0.0), ("bn1/beta", 0.0)])
def test_a_weight_shrinks_by_its_share_and_batch_normalisation_does_not(name, decay):
    rng = np.random.default_rng(0)
    start = rng.normal(size=[5, 4]).astype(np.float32) * 100  # so that the decay is not lost beside the steps
    gradients = rng.normal(size=[STEPS, 5, 4]).astype(np.float32)
    variable = tf.Variable(start, name=name)
    optimizer = optimizers.build(SETTINGS, STEPS)["classifier_optimizer"]
    for gradient in gradients:
        optimizer.apply_gradients([(tf.constant(gradient), variable)])
    expected = adamw(start.astype(np.float64), gradients.astype(np.float64), decay)
    np.testing.assert_allclose(variable.numpy(), expected, rtol=2e-6)
    if decay:
        assert np.abs(expected - adamw(start.astype(np.float64), gradients, 0.0)).max() > 1e-3


def test_rates_of_f_and_d_are_fixed_unless_they_are_to_follow_the_cosine():
    for follow in (False, True):
        built = optimizers.build(dataclasses.replace(SETTINGS, adversarial_cosine=follow), STEPS)
        for name, rate in (("inpainter_optimizer", 2e-4), ("discriminator_optimizer", 8e-4)):
            expected = [rate * rate_of(step) / 3e-4 if follow else rate for step in (0, 5, 10)]
            rates = [optimizers.learning_rate(built[name], step) for step in (0, 5, 10)]
            np.testing.assert_allclose(rates, expected, rtol=1e-5)


def test_the_rate_of_c_ends_where_the_paper_says():
    optimizer = optimizers.build(SETTINGS, STEPS)["classifier_optimizer"]
    np.testing.assert_allclose(optimizers.learning_rate(optimizer, 0), 3e-4, rtol=1e-6)
    np.testing.assert_allclose(optimizers.learning_rate(optimizer, STEPS), 3e-7, rtol=1e-4)
