"""Standardises features to mean 0 and standard deviation 1, with the statistics of the training images."""

from typing import NamedTuple

import numpy as np

from lci_tf.evaluation.feature_file import FeatureFile, row_blocks

BLOCK_BYTES = 16 * 2**20


class Standardisation(NamedTuple):
    """Mean and standard deviation of features, float32 [d] each; called with features, it standardises them."""

    mean: np.ndarray
    std: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray | FeatureFile, channels: int | None = None) -> "Standardisation":
        """The statistics of features, float32 [n, d]. Constant features (dead channels) get a `std` of 1.

        Args:
          features: the features, in memory or on disk.
          channels: if the features are flattened maps, with the channels last, the number of channels. Then all
            positions of a channel share one `std`, as in batch normalisation, so that positions where a channel is
            rarely active are not amplified.
        """
        mean = squares = np.zeros(features.shape[1])
        for rows in row_blocks(features, BLOCK_BYTES):
            block = features[rows]
            # Combines the block's sums of squares about its mean with those so far (Chan, Golub and LeVeque).
            block_mean = block.mean(axis=0, dtype=np.float64)
            within = np.square(block - block_mean.astype(np.float32)).sum(axis=0, dtype=np.float64)
            moved, share = block_mean - mean, len(block) / rows.stop
            squares = squares + within + np.square(moved) * rows.start * share
            mean = mean + moved * share
        variance = squares / len(features)
        if channels:
            variance = np.tile(variance.reshape([-1, channels]).mean(axis=0), len(variance) // channels)
        std = np.sqrt(variance)
        # Anything below this is float32 rounding, which must not be amplified.
        std[std <= 1e-6 * np.abs(mean)] = 1.0
        return cls(mean.astype(np.float32), std.astype(np.float32))

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """Standardises features, float32 [n, d]."""
        return (features - self.mean) / self.std
