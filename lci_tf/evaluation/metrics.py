"""How good predictions are: accuracy for classes, average precision for several labels per image."""

import dataclasses
import warnings

import numpy as np
from sklearn import metrics


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What came of a test.

    Attributes:
      kind: `"accuracy"` or `"average precision"`.
      value: over all images, or the mean over the classes; in [0, 1].
      per_class: float64 [classes]: of the images of a class the share that is right, or a class's average precision;
        nan where a class has no images.
      confusion: int64 [classes, classes], images of each class (row) by what they were taken for; None for several
        labels per image.
      count: how many images.
    """

    kind: str
    value: float
    per_class: np.ndarray
    confusion: np.ndarray | None
    count: int


def evaluate(scores: np.ndarray, labels: np.ndarray) -> Evaluation:
    """Judges scores, float [n, classes], by labels: integers [n], or int8 [n, classes] as `Source` has them."""
    return _several(scores, labels) if labels.ndim == 2 else _classes(scores, labels)


def _classes(scores, labels):
    confusion = metrics.confusion_matrix(labels, scores.argmax(axis=1), labels=np.arange(scores.shape[1]))
    counts = confusion.sum(axis=1)
    per_class = np.divide(confusion.diagonal(), counts, out=np.full(len(counts), np.nan), where=counts > 0)
    return Evaluation("accuracy", confusion.trace() / len(labels), per_class, confusion, len(labels))


def _several(scores, labels):
    per_class = np.array([_average_precision(s, y) for s, y in zip(scores.T, labels.T, strict=True)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # no class has any images
        mean = float(np.nanmean(per_class))
    return Evaluation("average precision", mean, per_class, None, len(labels))


def _average_precision(scores, labels):
    """Of one class; images that are not to be counted (-1) are left out."""
    counts = labels >= 0
    if not (labels == 1).any():
        return np.nan
    return metrics.average_precision_score(labels[counts], scores[counts])
