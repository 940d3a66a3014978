"""Scores masks: intersection over union of each class, their mean, and pixel accuracy."""

import dataclasses

import numpy as np

from lci_tf.evaluation.voc.segmentation.masks import VOID


def confusion(truth: np.ndarray, found: np.ndarray, classes: int) -> np.ndarray:
    """Numbers of pixels by class (row) and prediction (column), int64 [classes, classes], without void pixels."""
    counts = truth != VOID
    pairs = truth[counts].astype(np.int64) * classes + found[counts]
    return np.bincount(pairs, minlength=classes**2).reshape(classes, classes)


@dataclasses.dataclass(frozen=True)
class Score:
    """The result of a test.

    Attributes:
      iou: float64 [classes]: correct pixels of a class, divided by those that are of the class or predicted as it; NaN
        if there are none.
      mean_iou: mean over the classes with an IoU.
      pixel_accuracy: share of pixels that are correct.
      confusion: see `confusion`.
    """

    iou: np.ndarray
    mean_iou: float
    pixel_accuracy: float
    confusion: np.ndarray


def score(counts: np.ndarray) -> Score:
    """Scores the confusion matrix of all test images together, as VOC does, rather than of each image."""
    right, total = counts.diagonal(), counts.sum()
    union = counts.sum(axis=0) + counts.sum(axis=1) - right
    iou = np.divide(right, union, out=np.full(len(counts), np.nan), where=union > 0)
    if not total:
        return Score(iou, np.nan, np.nan, counts)
    return Score(iou, float(np.nanmean(iou)), float(right.sum() / total), counts)
