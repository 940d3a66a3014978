"""Nearest neighbours by the cosine of standardised features."""

import numpy as np

from lci_tf.transfer.standardisation import Standardisation

_BLOCK_BYTES = 64 * 2**20


def knn_accuracy(
    train_x: np.ndarray, train_y: np.ndarray, test_x: np.ndarray, test_y: np.ndarray, k: int = 10
) -> float:
    """The share of test images [m, d] whose class most of their `k` nearest train images [n, d] have."""
    return float(np.mean(vote(train_y[neighbours(train_x, test_x, k)]) == test_y))


def neighbours(train_x: np.ndarray, test_x: np.ndarray, k: int) -> np.ndarray:
    """int64 [m, k], numbers of the nearest train images of each test image, the nearest first.

    Features are float32, [n, d] and [m, d], and are standardised by the statistics of the train images. If there are
    fewer than `k` train images, all are neighbours.
    """
    standardisation = Standardisation.of(train_x)
    train_x, test_x = _unit(standardisation(train_x)), _unit(standardisation(test_x))
    k = min(k, len(train_x))
    block = max(1, _BLOCK_BYTES // (4 * len(train_x)))
    return np.concatenate([_nearest(test_x[i : i + block] @ train_x.T, k) for i in range(0, len(test_x), block)])


def vote(labels: np.ndarray) -> np.ndarray:
    """Labels of neighbours, integers [m, k], to the most frequent of each row [m]; of equals, the smallest."""
    classes, numbers = np.unique(labels, return_inverse=True)
    numbers = numbers.reshape(labels.shape)
    votes = np.zeros([len(labels), len(classes)], np.int32)
    for column in numbers.T:
        votes[np.arange(len(labels)), column] += 1
    return classes[votes.argmax(axis=1)]


def _nearest(similarity, k):
    candidates = np.argpartition(similarity, -k, axis=1)[:, -k:]
    order = np.argsort(-np.take_along_axis(similarity, candidates, axis=1), axis=1, kind="stable")
    return np.take_along_axis(candidates, order, axis=1)


def _unit(x):
    """Rows of length 1; a row of zeros stays."""
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(length == 0, 1, length)
