import numpy as np
from sklearn.preprocessing import StandardScaler

from lci_tf.transfer.standardisation import Standardisation


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
