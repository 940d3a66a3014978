"""Nearest neighbours by the cosine of standardised features, block by block: of more features than memory holds.

Neighbours come by falling similarity, and equal ones by rising number. The same features have the same similarities,
wherever they stand, because all blocks are of one size: a thin last one would be multiplied by other code, which rounds
differently.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from lci_tf.errors import InputError
from lci_tf.transfer.feature_file import FeatureFile, read_ahead, row_blocks
from lci_tf.transfer.standardisation import BLOCK_BYTES, Standardisation

Features = np.ndarray | FeatureFile

# Of features: two are multiplied, and the next is read and becomes a tensor, which takes three for a moment.
_BLOCK_BYTES = 384 * 2**20
_MOST_ROWS = 4096  # of a block: then similarities of two blocks take 64 MB


class Neighbours(NamedTuple):
    """The nearest of each of m images, the nearest first.

    Attributes:
      numbers: int64 [m, k].
      similarity: float32 [m, k], cosines.
    """

    numbers: np.ndarray
    similarity: np.ndarray


def knn_accuracy(
    train_x: np.ndarray, train_y: np.ndarray, test_x: np.ndarray, test_y: np.ndarray, k: int = 10
) -> float:
    """The share of test images [m, d] whose class most of their `k` nearest train images [n, d] have.

    If there are fewer than `k` train images, all are neighbours.
    """
    train_x, test_x = train_x.copy(), test_x.copy()
    normalise(test_x, normalise(train_x))
    found = nearest(train_x, test_x, min(k, len(train_x)))
    return float(np.mean(vote(train_y[found.numbers]) == test_y))


def accuracies(found: Neighbours, train_y: np.ndarray, test_y: np.ndarray, ks: Sequence[int]) -> dict[int, float]:
    """For each of several k, the share of test images whose class most of their k nearest train images have.

    Args:
      found: at least the largest k of the train images for each test image.
    """
    labels = train_y[found.numbers]
    return {k: float(np.mean(vote(labels[:, :k]) == test_y)) for k in ks}


def check_enough(ks: Sequence[int], count: int, what: str) -> None:
    """Refuses a k that is more than the images to choose from."""
    if max(ks) > count:
        raise InputError(f"--k={max(ks)}: {what}, so that there are {count:,} neighbours at most; give smaller ones")


def vote(labels: np.ndarray) -> np.ndarray:
    """Labels of neighbours, integers [m, k], to the most frequent of each row [m]; of equals, the smallest."""
    classes, numbers = np.unique(labels, return_inverse=True)
    numbers = numbers.reshape(labels.shape)
    votes = np.zeros([len(labels), len(classes)], np.int32)
    for column in numbers.T:
        votes[np.arange(len(labels)), column] += 1
    return classes[votes.argmax(axis=1)]


def normalise(features: Features, standardisation: Standardisation | None = None) -> Standardisation:
    """Standardises features [n, d] and scales rows to length 1, in place: then cosines are products.

    Args:
      standardisation: by other images than these; see what is returned.
    """
    standardisation = standardisation or Standardisation.of(features)
    for rows in row_blocks(features, BLOCK_BYTES):
        block = standardisation(features[rows])
        length = np.linalg.norm(block, axis=1, keepdims=True)
        features[rows] = block / np.where(length == 0, 1, length)  # an image at the mean stays there
    return standardisation


def nearest(train_x: Features, test_x: Features, k: int, leave_out: np.ndarray | None = None) -> Neighbours:
    """The `k` nearest train images [n, d] of each test image [m, d], both normalised.

    Args:
      leave_out: int [m], for each test image a train image that is not to be its neighbour: itself, for one.
    """
    blocks = row_blocks(train_x, _BLOCK_BYTES, _MOST_ROWS)
    pairs = [(rows, columns) for rows in row_blocks(test_x, _BLOCK_BYTES, _MOST_ROWS) for columns in blocks]
    found = []
    for (rows, columns), block in _shown(read_ahead(_reader(train_x), pairs), len(pairs)):
        if columns.start == 0:
            some, best = tf.constant(test_x[rows]), None
        similarity = tf.matmul(some, block, transpose_b=True)
        if leave_out is not None:
            similarity = tf.where(leave_out[rows, None] == np.arange(columns.start, columns.stop), -np.inf, similarity)
        best = _best(best, similarity, columns.start, k)
        if columns.stop == len(train_x):
            found.append(best)
    return _joined(found)


def nearest_others(x: Features, k: int) -> Neighbours:
    """The `k` nearest of each image [n, d], normalised, among all others, `k` < n: as many copies of it as there are.

    What blocks i and j have in common is computed once for both, so this takes half of the products of `nearest`.
    """
    blocks = row_blocks(x, _BLOCK_BYTES, _MOST_ROWS)
    pairs = [(rows, columns) for i, rows in enumerate(blocks) for columns in blocks[i:]]
    best = dict.fromkeys((rows.start for rows in blocks), None)
    for (rows, columns), block in _shown(read_ahead(_reader(x), pairs), len(pairs)):
        if rows == columns:
            some = block
        similarity = tf.matmul(some, block, transpose_b=True)
        if rows == columns:
            similarity = tf.linalg.set_diag(similarity, tf.fill([len(similarity)], -np.inf))
        else:
            best[columns.start] = _best(best[columns.start], tf.transpose(similarity), rows.start, k)
        best[rows.start] = _best(best[rows.start], similarity, columns.start, k)
    return _joined(best.values())


def _reader(x):
    return lambda pair: tf.constant(x[pair[1]])


def _shown(blocks, count):
    return tqdm(blocks, total=count, desc="neighbours", unit=" blocks", leave=False, delay=1)


def _best(best, similarity, first, k):
    """(similarity, numbers), each [m, k or fewer], the best of these and of further images from number `first` on.

    Of equals, `top_k` takes the first; and what was found before has lower numbers.
    """
    similarity, places = tf.math.top_k(similarity, min(k, similarity.shape[1]))
    numbers = tf.cast(places, tf.int64) + first
    if best is None:
        return similarity, numbers
    similarity, numbers = tf.concat([best[0], similarity], 1), tf.concat([best[1], numbers], 1)
    similarity, places = tf.math.top_k(similarity, min(k, similarity.shape[1]))
    return similarity, tf.gather(numbers, places, batch_dims=1)


def _joined(best):
    similarity, numbers = (np.concatenate(parts) for parts in zip(*best, strict=True))
    return Neighbours(numbers, similarity)
