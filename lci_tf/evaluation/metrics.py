"""Evaluates predictions: accuracy for classes, average precision for several labels per image."""

import dataclasses
import warnings

import numpy as np
from sklearn import metrics


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The result of a test.

    Attributes:
      kind: `"accuracy"` or `"average precision"`.
      value: accuracy over all images, or mean average precision over the classes; in [0, 1].
      per_class: float64 [classes]: accuracy on the images of a class, or its average precision; NaN for classes without
        images.
      confusion: int64 [classes, classes], numbers of images by class (row) and prediction (column); None for several
        labels per image.
      count: number of images.
    """

    kind: str
    value: float
    per_class: np.ndarray
    confusion: np.ndarray | None
    count: int


def evaluate(scores: np.ndarray, labels: np.ndarray) -> Evaluation:
    """Evaluates scores, float [n, classes], against labels: integers [n], or int8 [n, classes] as in `Source`."""
    return _several(scores, labels) if labels.ndim == 2 else _classes(scores, labels)


def _classes(scores, labels):
    confusion = metrics.confusion_matrix(labels, scores.argmax(axis=1), labels=np.arange(scores.shape[1]))
    counts = confusion.sum(axis=1)
    per_class = np.divide(confusion.diagonal(), counts, out=np.full(len(counts), np.nan), where=counts > 0)
    return Evaluation("accuracy", confusion.trace() / len(labels), per_class, confusion, len(labels))


def _several(scores, labels):
    per_class = np.array([_average_precision(s, y) for s, y in zip(scores.T, labels.T, strict=True)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of a mean over no classes, if none has any images
        mean = float(np.nanmean(per_class))
    return Evaluation("average precision", mean, per_class, None, len(labels))


def _average_precision(scores, labels):
    """The average precision for one class; images whose label does not count (-1) are left out."""
    counts = labels >= 0
    if not (labels == 1).any():
        return np.nan
    return metrics.average_precision_score(labels[counts], scores[counts])
