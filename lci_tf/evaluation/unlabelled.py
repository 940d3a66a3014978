"""Measures of features that need no labels, to watch them during training."""

from collections.abc import Callable, Iterable

import numpy as np
import tensorflow as tf

Maps = dict[str, tf.Tensor]
_SHARE = 0.75  # side of the crops relative to the image's: two crops of an image share a third of their pixels


class UnlabelledMeasures:
    """Measures the features of a fixed sample of images within seconds. docs/watching.md explains the numbers."""

    def __init__(self, batches: Callable[[], Iterable[tf.Tensor]]):
        """`batches` returns the sample, the same each time: batches of float32 [n, side, side, 3] in [-1, 1]."""
        self._batches = batches

    def __call__(self, features_model: Callable[..., Maps]) -> dict[str, dict[str, float]]:
        """Layer -> `"rank"`, see `effective_rank`, and `"agreement"`, see `agreement`, for maps averaged over space.

        Args:
          features_model: from images of any size to maps [n, height, width, channels] by layer; called with
            `training=False`.
        """
        views: dict[str, tuple[list, list]] = {}
        for images in self._batches():
            side = round(_SHARE * images.shape[1])
            for i, crops in enumerate((images[:, :side, :side], images[:, -side:, -side:])):
                for layer, maps in features_model(crops, training=False).items():
                    pooled = tf.reduce_mean(tf.cast(maps, tf.float32), axis=[1, 2])
                    views.setdefault(layer, ([], []))[i].append(pooled.numpy())
        measured = {}
        for layer, parts in views.items():
            first, second = (np.concatenate(part) for part in parts)
            measured[layer] = {"rank": effective_rank(first), "agreement": agreement(first, second)}
        return measured


def effective_rank(features: np.ndarray) -> float:
    """How many directions features [n, k] use: the exponential of the entropy of their normalised singular values.

    It is 1 if all features vary along one line, and at most k. From Roy and Vetterli, "The effective rank" (2007).
    """
    centred = features - features.mean(axis=0)
    values = np.linalg.svd(centred.astype(np.float64), compute_uv=False)
    total = values.sum()
    if not total > 0:
        return 1.0
    shares = values[values > 0] / total
    return float(np.exp(-(shares * np.log(shares)).sum()))


def agreement(first: np.ndarray, second: np.ndarray) -> float:
    """How often two crops of an image are mutual nearest neighbours, in [0, 1]; features [n, k] in the same order.

    Neighbours are found by the cosine of standardised features. By chance, it would be 1/n.
    """
    both = np.concatenate([first, second]).astype(np.float64)
    deviation = both.std(axis=0)
    both = (both - both.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
    both /= np.maximum(np.linalg.norm(both, axis=1, keepdims=True), 1e-12)
    likeness = both[: len(first)] @ both[len(first) :].T
    own = np.arange(len(first))
    return float(np.mean((likeness.argmax(axis=1) == own) & (likeness.argmax(axis=0) == own)))
