"""Features to mean 0 and standard deviation 1, by the statistics of the training images."""

from typing import NamedTuple

import numpy as np

from lci_tf.transfer.feature_file import FeatureFile, row_blocks

BLOCK_BYTES = 16 * 2**20


class Standardisation(NamedTuple):
    """`mean` and `std`: float32 [d]."""

    mean: np.ndarray
    std: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray | FeatureFile) -> "Standardisation":
        """Statistics of float32 [n, d]. Features that are constant (dead channels) get a `std` of 1."""
        mean = squares = np.zeros(features.shape[1])
        for rows in row_blocks(features, BLOCK_BYTES):
            block = features[rows]
            # Of the block, then of all until here: sums of squares about means that move (Chan, Golub and LeVeque).
            block_mean = block.mean(axis=0, dtype=np.float64)
            within = np.square(block - block_mean.astype(np.float32)).sum(axis=0, dtype=np.float64)
            moved, share = block_mean - mean, len(block) / rows.stop
            squares = squares + within + np.square(moved) * rows.start * share
            mean = mean + moved * share
        std = np.sqrt(squares / len(features))
        # Below this it is the rounding of float32, which must not be blown up.
        std[std <= 1e-6 * np.abs(mean)] = 1.0
        return cls(mean.astype(np.float32), std.astype(np.float32))

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """float32 [n, d] to float32 [n, d]."""
        return (features - self.mean) / self.std
