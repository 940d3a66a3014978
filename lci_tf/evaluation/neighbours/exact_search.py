"""Exact nearest neighbours by the cosine of standardised features, block by block, so that features may be on disk.

Neighbours are sorted by decreasing similarity, equal ones by index. Equal features have equal similarities wherever
they are, because all blocks have the same size: a thin last block would be multiplied by different code, which rounds
differently.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from lci_tf.errors import InputError
from lci_tf.evaluation import metrics
from lci_tf.evaluation.feature_file import FeatureFile, read_ahead, row_blocks
from lci_tf.evaluation.standardisation import BLOCK_BYTES, Standardisation

Features = np.ndarray | FeatureFile

# Bytes of a block of features, and how many blocks are held in memory. Reading a block takes about as long as
# multiplying it by another one, so each block that is read is multiplied by all that are held.
_BLOCK_BYTES, _HELD = 128 * 2**20, 10
_MOST_ROWS = 4096  # in a block, so that similarities take no more memory than features


class Neighbours(NamedTuple):
    """The neighbours of each of m images, the nearest first.

    Attributes:
      numbers: int64 [m, k], indices of the neighbours.
      similarity: float32 [m, k], their cosines.
    """

    numbers: np.ndarray
    similarity: np.ndarray


def knn_accuracy(
    train_x: np.ndarray, train_y: np.ndarray, test_x: np.ndarray, test_y: np.ndarray, k: int = 10
) -> float:
    """The share of test images [m, d] whose class most of their `k` nearest train images [n, d] have.

    If there are fewer than `k` train images, all are neighbours. If images may have several labels, [n, c] of 0 and 1,
    the score of a label is the share of neighbours that have it, and the result is the mean average precision.
    """
    train_x, test_x = train_x.copy(), test_x.copy()
    normalise(test_x, normalise(train_x))
    found = nearest(train_x, test_x, min(k, len(train_x)))
    labels = train_y[found.numbers]
    if labels.ndim == 3:
        return metrics.evaluate((labels == 1).mean(axis=1), test_y).value
    return float(np.mean(vote(labels) == test_y))


def accuracies(found: Neighbours, train_y: np.ndarray, test_y: np.ndarray, ks: Sequence[int]) -> dict[int, float]:
    """For each of several k, the share of test images whose class most of their k nearest train images have.

    Args:
      found: at least the largest k nearest train images of each test image.
      train_y, test_y: labels, integers [n] and [m].
      ks: the values of k.
    """
    labels = train_y[found.numbers]
    return {k: float(np.mean(vote(labels[:, :k]) == test_y)) for k in ks}


def check_enough(k: int, neighbours: int, what: str, flag: str = "--k") -> None:
    """Refuses a `k` larger than `neighbours`, the number of images of `what` that can be neighbours."""
    if k > neighbours:
        raise InputError(f"{flag}={k}: {what} is too small, as an image there has {max(0, neighbours):,} neighbours")


def vote(labels: np.ndarray) -> np.ndarray:
    """The most frequent label of each row, [m], of the neighbours' labels, integers [m, k]; of equals, the smallest."""
    classes, numbers = np.unique(labels, return_inverse=True)
    numbers = numbers.reshape(labels.shape)
    votes = np.zeros([len(labels), len(classes)], np.int32)
    for column in numbers.T:
        votes[np.arange(len(labels)), column] += 1
    return classes[votes.argmax(axis=1)]


def normalise(features: Features, standardisation: Standardisation | None = None) -> Standardisation:
    """Standardises features [n, d] and scales rows to length 1, in place, so that their products are cosines.

    Args:
      features: the features.
      standardisation: the statistics of other images, as this returns them; by default those of these.
    """
    standardisation = standardisation or Standardisation.of(features)
    for rows in row_blocks(features, BLOCK_BYTES):
        block = standardisation(features[rows])
        length = np.linalg.norm(block, axis=1, keepdims=True)
        features[rows] = block / np.where(length == 0, 1, length)  # features equal to the mean stay 0
    return standardisation


def nearest(train_x: Features, test_x: Features, k: int, leave_out: np.ndarray | None = None) -> Neighbours:
    """The `k` nearest train images [n, d] of each test image [m, d], both normalised.

    Args:
      train_x, test_x: features of the train and test images.
      k: number of neighbours.
      leave_out: int [m], for each test image a train image that cannot be its neighbour, such as itself.
    """
    blocks, test_blocks = blocks_of(train_x), blocks_of(test_x)
    best = [None] * len(test_blocks)
    with _bar(len(blocks) * len(test_blocks)) as bar:
        for first in range(0, len(test_blocks), _HELD):
            held = [tf.constant(test_x[rows]) for rows in test_blocks[first : first + _HELD]]
            for columns, block in read_ahead(lambda rows: tf.constant(train_x[rows]), blocks):
                for i, some in enumerate(held, first):
                    similarity = tf.matmul(some, block, transpose_b=True)
                    if leave_out is not None:
                        is_left_out = leave_out[test_blocks[i], None] == np.arange(columns.start, columns.stop)
                        similarity = tf.where(is_left_out, -np.inf, similarity)
                    best[i] = _best(best[i], similarity, columns.start, k)
                    bar.update()
    return _joined(best)


def nearest_others(x: Features, k: int) -> Neighbours:
    """The `k` nearest of each image [n, d], normalised, among all others (including copies of it), `k` < n.

    The similarities of two blocks are computed once for both, which takes half of the products of `nearest`.
    """
    blocks = blocks_of(x)
    best = [None] * len(blocks)
    with _bar(len(blocks) * (len(blocks) + 1) // 2) as bar:
        for first in range(0, len(blocks), _HELD):
            held: list[tf.Tensor] = []
            for j, block in read_ahead(lambda j: tf.constant(x[blocks[j]]), range(first, len(blocks))):
                if len(held) < _HELD:
                    held.append(block)
                for i, some in enumerate(held, first):
                    similarity = tf.matmul(some, block, transpose_b=True)
                    if i == j:
                        similarity = tf.linalg.set_diag(similarity, tf.fill([len(similarity)], -np.inf))
                    else:
                        best[j] = _best(best[j], tf.transpose(similarity), blocks[i].start, k)
                    best[i] = _best(best[i], similarity, blocks[j].start, k)
                    bar.update()
    return _joined(best)


def blocks_of(x: Features) -> list[slice]:
    """The blocks of rows in which features are read and multiplied."""
    return row_blocks(x, _BLOCK_BYTES, _MOST_ROWS)


def _bar(count):
    return tqdm(total=count, desc="neighbours", unit=" blocks", leave=False, delay=1)


def _best(best, similarity, first, k):
    """Updates the `best` (similarity, numbers), [m, k or fewer] each, with further images, with indices from `first`.

    Among equals, `top_k` takes the first; and what was found before has lower indices.
    """
    similarity, places = tf.math.top_k(similarity, min(k, similarity.shape[1]))
    numbers = tf.cast(places, tf.int64) + first
    if best is None:
        return similarity, numbers
    similarity, numbers = tf.concat([best[0], similarity], 1), tf.concat([best[1], numbers], 1)
    similarity, places = tf.math.top_k(similarity, min(k, similarity.shape[1]))
    return similarity, tf.gather(numbers, places, batch_dims=1)


def _joined(best):
    similarity, numbers = (tf.concat(parts, 0).numpy() for parts in zip(*best, strict=True))
    return Neighbours(numbers, similarity)
