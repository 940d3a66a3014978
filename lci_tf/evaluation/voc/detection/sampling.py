"""Samples the regions of an image to train on, with their labels and targets."""

from typing import NamedTuple

import numpy as np

from lci_tf.config.voc_protocols import Detection
from lci_tf.evaluation.voc.detection import boxes
from lci_tf.evaluation.voc.detection.annotations import Annotated


class Regions(NamedTuple):
    """Regions of one image, padded to a fixed number.

    Attributes:
      boxes: float32 [n, 4], see `boxes`.
      labels: int32 [n], 0 for background, or 1 + the class.
      targets: float32 [n, 4], see `boxes.targets`; 0 for background.
      weights: float32 [n], 1, or 0 for padding.
    """

    boxes: np.ndarray
    labels: np.ndarray
    targets: np.ndarray
    weights: np.ndarray


def can_train(one: Annotated) -> bool:
    """Whether an image can be trained on. Without objects no region overlaps one, so that none would be sampled."""
    return bool((~one.difficult).any())


def sample(rng: np.random.Generator, one: Annotated, proposals: np.ndarray, count: int, protocol: Detection) -> Regions:
    """Samples `count` regions from an image's proposals and the boxes of its objects.

    Regions that overlap an object by at least `protocol.least_foreground` are foreground; at most a share of
    `protocol.foreground` of all is. Regions whose largest overlap is within `protocol.background` are background, and
    fill the rest. If there are too few of them, the last rows are padding. Difficult objects are ignored.
    """
    objects, classes = one.boxes[~one.difficult], one.classes[~one.difficult]
    candidates = np.concatenate([objects, proposals])
    overlaps = boxes.iou(candidates, objects)
    largest, nearest = overlaps.max(axis=1), overlaps.argmax(axis=1)
    low, high = protocol.background
    (foreground,) = np.nonzero(largest >= protocol.least_foreground)
    (background,) = np.nonzero((largest >= low) & (largest < high))
    foreground = _some(rng, foreground, round(protocol.foreground * count))
    background = _some(rng, background, count - len(foreground))
    chosen = np.concatenate([foreground, background])
    regions = Regions(
        boxes=np.zeros([count, 4], np.float32),
        labels=np.zeros([count], np.int32),
        targets=np.zeros([count, 4], np.float32),
        weights=np.zeros([count], np.float32),
    )
    regions.boxes[: len(chosen)] = candidates[chosen]
    regions.weights[: len(chosen)] = 1
    its_objects = nearest[foreground]
    regions.labels[: len(foreground)] = 1 + classes[its_objects]
    regions.targets[: len(foreground)] = boxes.targets(candidates[foreground], objects[its_objects])
    return regions


def mirrored(one: Annotated, regions: Regions) -> Regions:
    """The same regions in the mirror image: changes the boxes and their horizontal targets."""
    targets = regions.targets * np.array([-1, 1, 1, 1], np.float32)
    return regions._replace(boxes=boxes.mirrored(regions.boxes, one.width).astype(np.float32), targets=targets)


def _some(rng, numbers, most):
    return numbers if len(numbers) <= most else rng.choice(numbers, most, replace=False)
