import numpy as np
import pytest
import tensorflow as tf

from lci_tf.training.sgd import CaffeSGD, dropping


def variables():
    return [tf.Variable([[1.0, -2.0], [3.0, 4.0]]), tf.Variable([0.5, -0.5])]


GRADIENTS = [tf.constant([[0.3, 0.1], [-0.2, 0.4]]), tf.constant([0.2, -0.1])]


def updated(steps=3, rate=0.1, **options):
    changed = variables()
    optimizer = CaffeSGD(rate, 0.9, **options)
    optimizer.build(changed)
    for _ in range(steps):
        optimizer.apply(GRADIENTS, changed)
    return [variable.numpy() for variable in changed]


def test_it_is_kerass_where_both_can_do_it():
    expected = variables()
    optimizer = tf.keras.optimizers.SGD(0.1, 0.9)
    for _ in range(3):
        optimizer.apply_gradients(zip(GRADIENTS, expected, strict=True))
    for got, wanted in zip(updated(), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_biases_have_a_rate_and_a_decay_of_their_own():
    """By hand: v ← 0.9 v − rate · (gradient + decay · weight)."""
    weight, bias = (v.numpy().astype(np.float64) for v in variables())
    of_weight = of_bias = 0.0
    for _ in range(3):
        of_weight = 0.9 * of_weight - 0.1 * (GRADIENTS[0] + 0.01 * weight)
        of_bias = 0.9 * of_bias - 0.2 * (GRADIENTS[1] + 0.01 * 0.5 * bias)
        weight, bias = weight + of_weight, bias + of_bias
    got = updated(weight_decay=0.01, bias_rate=2.0, bias_decay=0.5)
    np.testing.assert_allclose(got[0], weight, rtol=1e-6)
    np.testing.assert_allclose(got[1], bias, rtol=1e-6)


def test_all_gradients_together_are_clipped_before_the_decay_comes_in():
    norm = np.sqrt(sum(np.square(g).sum() for g in GRADIENTS))
    before = variables()
    got = updated(steps=1, clip=norm / 2, weight_decay=0.1)
    expected = before[0] - 0.1 * (GRADIENTS[0] / 2 + 0.1 * before[0])
    np.testing.assert_allclose(got[0], expected, rtol=1e-6)
    np.testing.assert_array_equal(updated(clip=2 * norm)[0], updated()[0])


def test_the_rate_drops_after_so_many_updates():
    schedule = dropping(0.8, (2, 4), 0.5)
    rates = [float(schedule(tf.constant(step, tf.int64))) for step in range(6)]
    np.testing.assert_allclose(rates, [0.8, 0.8, 0.4, 0.4, 0.2, 0.2], rtol=1e-6)
    assert dropping(0.8, (), 0.5) == 0.8


def test_the_rate_that_is_shown_is_that_of_the_next_update():
    changed = variables()
    optimizer = CaffeSGD(dropping(0.8, (1,), 0.5), 0.9)
    optimizer.build(changed)
    assert optimizer.rate == pytest.approx(0.8)
    optimizer.apply(GRADIENTS, changed)
    assert optimizer.rate == pytest.approx(0.4)
