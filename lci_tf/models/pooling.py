"""Average-pooling of feature maps of any size to a small grid."""

import math

import numpy as np
import tensorflow as tf

UNITS = 9216  # the paper's "approximately 9,000": conv5 of AlexNet on ImageNet is 6×6×256


def grid_of(channels: int, units: int = UNITS) -> int:
    """Bins along each side with which a map of `channels` channels is pooled to about `units` numbers.

    For AlexNet's 96, 256 and 384 channels these are the authors' 10, 6 and 5.
    """
    return max(1, round(math.sqrt(units / channels)))


def pool(feature_map: tf.Tensor, grid: int) -> tf.Tensor:
    """Means over equal parts of a map: from [n, height, width, channels] to float32 [n, grid, grid, channels].

    A pixel that lies in several bins counts in each with its share. Along a side with fewer pixels than bins, the map
    is not pooled.
    """
    _, height, width, _ = feature_map.shape
    # Always in float32, as half precision is too small for sums over a map.
    return tf.einsum("nhwc,gh,kw->ngkc", tf.cast(feature_map, tf.float32), _bins(height, grid), _bins(width, grid))


def _bins(size, grid) -> np.ndarray:
    """float32 [bins, size]: the weight of each pixel in the mean of each bin. Rows sum to 1."""
    bins = min(grid, size)
    edges = np.arange(bins + 1)[:, None] * size / bins
    pixels = np.arange(size)
    overlap = np.minimum(edges[1:], pixels + 1) - np.maximum(edges[:-1], pixels)
    return (np.maximum(overlap, 0) * bins / size).astype(np.float32)
