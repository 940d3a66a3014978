import numpy as np
import tensorflow as tf

from lci_tf.data import draws


def positions(first, count):
    return tf.range(first, first + count, dtype=tf.int64)


def test_an_epoch_is_a_permutation_of_all_images():
    for epoch in range(3):
        order = draws.shuffled(7, positions(epoch * 1001, 1001), 1001).numpy()
        np.testing.assert_array_equal(np.sort(order), np.arange(1001))


def test_epochs_and_seeds_have_orders_of_their_own():
    orders = [draws.shuffled(seed, positions(e * 500, 500), 500).numpy() for seed in (0, 1) for e in (0, 1)]
    for i, order in enumerate(orders):
        for other in orders[:i]:
            assert (order == other).mean() < 0.05
        assert abs(np.corrcoef(order, np.arange(500))[0, 1]) < 0.15


def test_starting_in_the_middle_needs_no_replay():
    whole = draws.shuffled(3, positions(0, 300), 100).numpy()
    np.testing.assert_array_equal(draws.shuffled(3, positions(150, 50), 100), whole[150:200])


def test_draws_depend_only_on_seed_purpose_and_step():
    def draw(seed, purpose, step):
        return draws.uniform(seed, purpose, tf.constant(step), 8, (3,)).numpy()

    np.testing.assert_array_equal(draw(0, draws.VIEW, 5), draw(0, draws.VIEW, 5))
    for other in (draw(1, draws.VIEW, 5), draw(0, draws.ORDER, 5), draw(0, draws.VIEW, 6)):
        assert not np.isclose(draw(0, draws.VIEW, 5), other).any()


def test_draws_are_uniform():
    values = draws.uniform(0, draws.VIEW, tf.constant(0), 20_000, (2,)).numpy()
    histogram, _ = np.histogram(values, bins=10, range=(0, 1))
    assert values.min() >= 0 and values.max() < 1
    assert abs(histogram / 4000 - 1).max() < 0.1


def test_noise_is_of_a_place_however_the_batch_is_shared():
    def noise(first, last, step=3):
        places = draws.places(0, draws.NOISE, tf.constant(step), 50)[first:last]
        return draws.normal(places, 50, (40, 3)).numpy()

    whole = noise(0, 50)
    np.testing.assert_array_equal(np.concatenate([noise(0, 20), noise(20, 50)]), whole)
    assert not np.isclose(whole[0], whole[1]).any() and not np.isclose(whole, noise(0, 50, step=4)).all(axis=-1).any()
    assert abs(whole.mean()) < 0.05 and abs(whole.std() - 1) < 0.05
