"""Boxes, float32 [n, 4]: left, top, right and bottom in pixels from 0.

The right and bottom pixels belong to the box, as in VOC: a box of a single pixel has left = right, and lengths are
differences plus one.
"""

import numpy as np
import tensorflow as tf

# Fast R-CNN divides its targets by these, so that they are about as large as class scores.
DEVIATIONS = np.array([0.1, 0.1, 0.2, 0.2], np.float32)
# Added to convert to the convention of other libraries, in which a box ends at the far edge of its last pixel.
TO_EDGES = np.array([0, 0, 1, 1], np.float32)
_LARGEST_GROWTH = float(np.log(1000 / 16))  # of a side; an untrained network may predict anything


def iou(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Intersection over union of all pairs, [n, m]."""
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    both = np.prod(np.maximum(high - low + 1, 0), axis=2)
    return both / (areas(first)[:, None] + areas(second)[None, :] - both)


def areas(boxes: np.ndarray) -> np.ndarray:
    return np.prod(boxes[:, 2:] - boxes[:, :2] + 1, axis=1)


def targets(proposals: np.ndarray, objects: np.ndarray) -> np.ndarray:
    """The outputs of the network that would move each proposal to the object in the same row, float32 [n, 4].

    These are the shift of the centre, in widths and heights of the proposal, and the logarithms of the factors for its
    width and height, all divided by `DEVIATIONS`.
    """
    (centre, size), (wanted_centre, wanted_size) = _centres_and_sizes(proposals), _centres_and_sizes(objects)
    moved = np.concatenate([(wanted_centre - centre) / size, np.log(wanted_size / size)], axis=1)
    return (moved / DEVIATIONS).astype(np.float32)


def moved(proposals: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    """The inverse of `targets`: from proposals [n, 4] and outputs [n, classes, 4] to boxes [n, classes, 4]."""
    centre, size = (part[:, tf.newaxis] for part in _centres_and_sizes(proposals))
    change = outputs * DEVIATIONS
    centre, size = centre + change[..., :2] * size, size * tf.exp(tf.minimum(change[..., 2:], _LARGEST_GROWTH))
    return tf.concat([centre - (size - 1) / 2, centre + (size - 1) / 2], axis=2)


def _centres_and_sizes(boxes):
    size = boxes[:, 2:] - boxes[:, :2] + 1
    return (boxes[:, :2] + boxes[:, 2:]) / 2, size


def mirrored(boxes: np.ndarray, width: float) -> np.ndarray:
    """Boxes in the mirror image of an image with this width."""
    left, top, right, bottom = boxes.T
    return np.stack([width - 1 - right, top, width - 1 - left, bottom], axis=1)


def clipped(boxes: tf.Tensor, width: tf.Tensor, height: tf.Tensor) -> tf.Tensor:
    """Boxes [..., 4], clipped to the image."""
    return tf.clip_by_value(boxes, 0.0, tf.cast(tf.stack([width, height, width, height]), tf.float32) - 1)
