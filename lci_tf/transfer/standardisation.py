"""Features to mean 0 and standard deviation 1, by the statistics of the training images."""

from typing import NamedTuple

import numpy as np


class Standardisation(NamedTuple):
    """`mean` and `std`: float32 [d]."""

    mean: np.ndarray
    std: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray) -> "Standardisation":
        """Statistics of float32 [n, d]. Features that are constant (dead channels) get a `std` of 1."""
        mean = features.mean(axis=0, dtype=np.float64)
        variance = np.square(features - mean.astype(np.float32)).mean(axis=0, dtype=np.float64)
        std = np.sqrt(variance)
        # Below this it is the rounding of float32, which must not be blown up.
        std[std <= 1e-6 * np.abs(mean)] = 1.0
        return cls(mean.astype(np.float32), std.astype(np.float32))

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """float32 [n, d] to float32 [n, d]."""
        return (features - self.mean) / self.std
