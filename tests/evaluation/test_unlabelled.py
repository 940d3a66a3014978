import numpy as np
import pytest
import tensorflow as tf

from lci_tf.evaluation.unlabelled import UnlabelledMeasures, agreement, effective_rank

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("rank", [1, 3, 10])
def test_directions_of_equal_strength_are_counted(rank):
    directions, _ = np.linalg.qr(RNG.normal(size=[40, rank]))
    values, _ = np.linalg.qr(RNG.normal(size=[200, rank + 1]))
    values -= values.mean(axis=0)
    values, _ = np.linalg.qr(values[:, :rank])
    assert effective_rank(5 + 3 * values @ directions.T) == pytest.approx(rank, rel=1e-6)


def test_weak_directions_count_for_less():
    """Of singular values 1, ½, ½: the entropy of ½, ¼, ¼ is 1.5 bits."""
    values, _ = np.linalg.qr(RNG.normal(size=[64, 3]) - RNG.normal(size=3))
    values -= values.mean(axis=0)
    values, _ = np.linalg.qr(values)
    assert effective_rank(values * [1, 0.5, 0.5]) == pytest.approx(2**1.5)


def test_features_that_are_all_the_same_have_rank_1():
    assert effective_rank(np.full([8, 4], 3.0)) == 1.0


def test_crops_agree_where_each_is_the_others_nearest():
    features = RNG.normal(size=[50, 16])
    noise = RNG.normal(size=features.shape)
    assert agreement(features, features + 0.01 * noise) == 1.0
    assert agreement(features, RNG.permutation(features)) < 0.15
    swapped = features.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    assert agreement(features, swapped) == pytest.approx(48 / 50)


def test_it_must_be_so_from_both_sides():
    """The third crop is nearest to its own image's other, which has a nearer one."""
    first = np.array([[0.0, 1.0], [1.0, 0.0], [0.9, -0.5]])
    second = np.array([[0.1, 1.0], [1.0, -0.3], [1.0, -0.25]])
    assert 0 < agreement(first, second) < 1


def test_layers_are_measured_on_two_crops_of_each_image():
    colours = RNG.uniform(-1, 1, [24, 1, 1, 3])
    images = tf.constant((colours + RNG.normal(scale=0.01, size=[24, 16, 16, 3])).astype(np.float32))
    seen = []

    def features(crops, training):
        assert training is False
        seen.append(crops)
        return {"mean": crops, "same": tf.ones_like(crops)}

    measured = UnlabelledMeasures(lambda: [images[:16], images[16:]])(features)
    np.testing.assert_array_equal(seen[0], images[:16, :12, :12])
    np.testing.assert_array_equal(seen[3], images[16:, 4:, 4:])
    assert 1 < measured["mean"]["rank"] <= 3 and measured["same"]["rank"] == 1
    assert measured["mean"]["agreement"] > 0.9 and measured["same"]["agreement"] < 0.1
