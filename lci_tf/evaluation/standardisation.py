"""Features to mean 0 and standard deviation 1, by the statistics of the training images."""

from typing import NamedTuple

import numpy as np

from lci_tf.evaluation.feature_file import FeatureFile, row_blocks

BLOCK_BYTES = 16 * 2**20


class Standardisation(NamedTuple):
    """`mean` and `std`: float32 [d]."""

    mean: np.ndarray
    std: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray | FeatureFile, channels: int | None = None) -> "Standardisation":
        """Statistics of float32 [n, d]. Features that are constant (dead channels) get a `std` of 1.

        Args:
          channels: of the maps that the features are, laid out flat with the channels last. Then there is one `std`
            for a whole channel, as in batch normalisation: what a channel seldom shows in some corner of the image is
            not blown up to what it often shows in the middle.
        """
        mean = squares = np.zeros(features.shape[1])
        for rows in row_blocks(features, BLOCK_BYTES):
            block = features[rows]
            # Of the block, then of all until here: sums of squares about means that move (Chan, Golub and LeVeque).
            block_mean = block.mean(axis=0, dtype=np.float64)
            within = np.square(block - block_mean.astype(np.float32)).sum(axis=0, dtype=np.float64)
            moved, share = block_mean - mean, len(block) / rows.stop
            squares = squares + within + np.square(moved) * rows.start * share
            mean = mean + moved * share
        variance = squares / len(features)
        if channels:
            variance = np.tile(variance.reshape([-1, channels]).mean(axis=0), len(variance) // channels)
        std = np.sqrt(variance)
        # Below this it is the rounding of float32, which must not be blown up.
        std[std <= 1e-6 * np.abs(mean)] = 1.0
        return cls(mean.astype(np.float32), std.astype(np.float32))

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """float32 [n, d] to float32 [n, d]."""
        return (features - self.mean) / self.std
