import numpy as np
from sklearn.preprocessing import StandardScaler

from lci_tf.evaluation.standardisation import Standardisation


def test_equals_scikit_learn():
    rng = np.random.default_rng(0)
    x = (rng.normal(size=[500, 30]) * np.exp(rng.normal(size=30)) + 20).astype(np.float32)
    standardised = Standardisation.of(x[:400])(x)
    assert standardised.dtype == np.float32
    np.testing.assert_allclose(standardised, StandardScaler().fit(x[:400].astype(np.float64)).transform(x), atol=1e-5)


def test_neither_dead_channels_nor_rounding_are_blown_up():
    x = np.full([100, 3], 0.1, np.float32)
    x[:, 1] = 0
    x[::2, 2] = np.nextafter(np.float32(0.1), np.float32(1))
    assert np.abs(Standardisation.of(x)(x)).max() < 1e-6


def test_a_channel_of_maps_has_one_deviation_as_in_batch_normalisation():
    rng = np.random.default_rng(1)
    maps = (rng.normal(size=[300, 6, 4]) * np.exp(rng.normal(size=[6, 4])) + rng.normal(size=[6, 4])).astype(np.float32)
    maps[..., 3] = 5.0  # a dead channel
    flat = maps.reshape([300, 24])
    standardised = Standardisation.of(flat, channels=4)(flat).reshape([300, 6, 4])
    centred = maps - maps.mean(axis=0)
    expected = centred / np.maximum(np.sqrt((centred**2).mean(axis=(0, 1))), 1e-3)
    np.testing.assert_allclose(standardised, expected, atol=1e-4)
    np.testing.assert_array_equal(Standardisation.of(flat, channels=24), Standardisation.of(flat))
