"""The mean of all images of a source, and where it gives away which way is up."""

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from lci_tf.data import pipeline
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import Source


def mean_image(source: Source, crops: pipeline.Crops, report: InputReport) -> np.ndarray:
    """float [crop, crop, 3], 0…255: the mean of the centre crops. Unreadable images do not count."""
    batches = pipeline.evaluation_batches(source, crops, batch_size=64, report=report)
    total = np.zeros([crops.crop_size, crops.crop_size, 3])
    valid = 0
    bar = tqdm(total=source.count, desc=f"decoding {source.split}", unit=" images", leave=False)
    with report.one_line_errors(), bar:
        for batch in batches:
            readable = tf.boolean_mask(batch["image"][:, 0], batch["valid"])
            total += tf.reduce_sum(readable, axis=0).numpy()
            valid += int(readable.shape[0])
            bar.update(int(batch["valid"].shape[0]))
    return (total / max(valid, 1) + 1.0) * 127.5


def telling_patches(image: np.ndarray, patch_size: int, count: int = 4) -> list[tuple[int, int]]:
    """Row and column of the patches that differ most from themselves turned by 90°, 180° or 270°; none overlap.

    Seen in a mean image, such a patch stands upright in many images, and so tells of a rotation all by itself.

    Args:
      image: [height, width, 3].
      patch_size: side of a patch.
      count: how many at most.
    """
    step = max(1, patch_size // 12)  # a finer search would only take longer
    windows = np.lib.stride_tricks.sliding_window_view(image, (patch_size, patch_size), axis=(0, 1))[::step, ::step]
    turned = [np.square(windows - np.rot90(windows, k, axes=(3, 4))).mean(axis=(2, 3, 4)) for k in (1, 2, 3)]
    score = np.minimum.reduce(turned)
    rows, columns = np.indices(score.shape) * step
    chosen = []
    while len(chosen) < count and np.isfinite(score).any():
        best = np.unravel_index(np.argmax(score), score.shape)
        chosen.append((int(rows[best]), int(columns[best])))
        score[(abs(rows - rows[best]) < patch_size) & (abs(columns - columns[best]) < patch_size)] = -np.inf
    return chosen
