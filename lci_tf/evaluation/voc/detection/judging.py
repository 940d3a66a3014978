"""Evaluates detections by VOC's rules: which of them are right, and the average precision of each class.

Detections are considered from the most to the least confident. Each is compared with the object in its image and of its
class that it overlaps most. It is wrong if there is none, if their intersection is less than half of their union, or if
an earlier detection was right about the same object. It is ignored if the object is difficult. Otherwise, it is right.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lci_tf.evaluation.voc.detection.annotations import Annotated
from lci_tf.evaluation.voc.detection.boxes import iou

RIGHT, WRONG, IGNORED = 1, 0, -1
LEAST_OVERLAP = 0.5


class Detections(NamedTuple):
    """Detected objects, in any order.

    Attributes:
      images: int64 [n], the number of the image.
      classes: int64 [n].
      scores: float32 [n], the confidence in [0, 1].
      boxes: float32 [n, 4], see `boxes`.
    """

    images: np.ndarray
    classes: np.ndarray
    scores: np.ndarray
    boxes: np.ndarray


class Curve(NamedTuple):
    """Recall and precision for one class. Row i is about the i + 1 most confident detections, without ignored ones.

    Attributes:
      hits: int64 [n], how many of them are right.
      precision: float64 [n], the share of them that is right.
      objects: number of objects of the class, without difficult ones.
    """

    hits: np.ndarray
    precision: np.ndarray
    objects: int

    @property
    def recall(self) -> np.ndarray:
        return self.hits / max(self.objects, 1)


def verdicts(found: Detections, annotated: Sequence[Annotated]) -> np.ndarray:
    """RIGHT, WRONG or IGNORED for each detection, int64 [n]; `annotated` has all images."""
    taken = [np.zeros(len(truth.boxes), bool) for truth in annotated]
    judged = np.full(len(found.scores), WRONG)
    for i in np.argsort(-found.scores, kind="stable"):
        truth = annotated[found.images[i]]
        (same,) = np.nonzero(truth.classes == found.classes[i])
        if not len(same):
            continue
        overlaps = iou(found.boxes[i : i + 1], truth.boxes[same])[0]
        nearest = same[overlaps.argmax()]
        if overlaps.max() < LEAST_OVERLAP:
            continue
        if truth.difficult[nearest]:
            judged[i] = IGNORED
        elif not taken[found.images[i]][nearest]:
            judged[i] = RIGHT
            taken[found.images[i]][nearest] = True
    return judged


def curve(found: Detections, judged: np.ndarray, annotated: Sequence[Annotated], number: int) -> Curve:
    """The curve of one class; `judged` are the `verdicts` on all detections."""
    (mine,) = np.nonzero((found.classes == number) & (judged != IGNORED))
    mine = mine[np.argsort(-found.scores[mine], kind="stable")]
    hits = np.cumsum(judged[mine] == RIGHT)
    objects = sum(int(((truth.classes == number) & ~truth.difficult).sum()) for truth in annotated)
    return Curve(hits, hits / np.arange(1, len(hits) + 1), objects)


def average_precision(of: Curve, points: int | None = None) -> float:
    """The mean, over recalls, of the best precision at that recall or a higher one; NaN if there are no objects.

    Args:
      points: number of evenly spaced recalls from 0 to 1; VOC 2007 has 11. None for all recalls, that is, the area
        under the curve, as in VOC since 2010.
    """
    if not of.objects:
        return np.nan
    best = np.maximum.accumulate(of.precision[::-1])[::-1]  # from here on
    steps = points - 1 if points else of.objects
    # A recall of at least `step / steps`, in integers, because 3 × 0.1 > 0.3 for floating-point numbers.
    wanted = np.arange(0 if points else 1, steps + 1) * of.objects
    place = np.searchsorted(of.hits * steps, wanted)
    return float(np.append(best, 0.0)[np.minimum(place, len(best))].mean())
