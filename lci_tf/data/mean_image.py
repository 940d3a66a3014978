"""The mean image of a data set, and the places where it reveals which way is up."""

from typing import Any

import numpy as np
import tensorflow as tf

from lci_tf.data import pipeline
from lci_tf.data.extraction import with_masks
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import Source


def mean_image(source: Source, crops: pipeline.Crops, report: InputReport) -> np.ndarray:
    """The mean of the centre crops, float [crop, crop, 3] in 0…255. Unreadable images do not count."""
    batches = pipeline.evaluation_batches(source, crops, batch_size=64, report=report)
    total = np.zeros([crops.crop_size, crops.crop_size, 3])
    valid = 0
    for batch, mask in with_masks(batches, source.count, f"decoding {source.split}", report, labelled=False):
        total += tf.reduce_sum(tf.boolean_mask(batch["image"][:, 0], mask), axis=0).numpy()
        valid += int(mask.sum())
    return (total / max(valid, 1) + 1.0) * 127.5


def telling_patches(image: np.ndarray, patch_size: int, count: int = 4) -> list[tuple[int, int]]:
    """Finds the patches that differ most when rotated by 90°, 180° or 270°: (row, column) of each, without overlap.

    If a patch of the mean image does, then that place alone reveals in many images whether they were rotated.

    Args:
      image: [height, width, 3].
      patch_size: side of a patch, in pixels.
      count: largest number of patches.
    """
    step = max(1, patch_size // 12)  # a finer search would only take longer
    window_view: Any = np.lib.stride_tricks.sliding_window_view  # whose types know of one axis alone
    windows = window_view(image, (patch_size, patch_size), axis=(0, 1))[::step, ::step]
    turned = [np.square(windows - np.rot90(windows, k, axes=(3, 4))).mean(axis=(2, 3, 4)) for k in (1, 2, 3)]
    score = np.minimum.reduce(turned)
    rows, columns = np.indices(score.shape) * step
    chosen: list[tuple[int, int]] = []
    while len(chosen) < count and np.isfinite(score).any():
        best = np.unravel_index(np.argmax(score), score.shape)
        chosen.append((int(rows[best]), int(columns[best])))
        score[(abs(rows - rows[best]) < patch_size) & (abs(columns - columns[best]) < patch_size)] = -np.inf
    return chosen
