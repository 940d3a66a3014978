"""Computes something for each image of a data set in one pass, with a progress bar, leaving out unreadable images."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from lci_tf.data.input_report import InputReport

Batch = dict[str, tf.Tensor]


def with_masks(
    batches: Iterable[Batch],
    count: int | None,
    doing: str,
    report: InputReport | None = None,
    labelled: bool = True,
    delay: float = 0,
) -> Iterator[tuple[Batch, np.ndarray]]:
    """Yields each batch with a mask over its images, bool [n], which is true for those that count.

    Args:
      batches: batches of `pipeline.evaluation_batches`.
      count: number of images, if known.
      doing: text of the progress bar.
      report: the report of the batches, if errors in them are to be raised as `InputError`.
      labelled: whether images without a class (label -1) do not count, like unreadable ones.
      delay: seconds before the bar appears.
    """
    bar = tqdm(total=count, desc=doing, unit=" images", leave=False, delay=delay)
    with report.one_line_errors() if report else contextlib.nullcontext(), bar:
        for batch in batches:
            mask = batch["valid"].numpy()
            if labelled and batch["label"].shape.rank == 1:
                mask &= batch["label"].numpy() >= 0
            yield batch, mask
            bar.update(len(mask))


def extract(compute: Callable[[tf.Tensor], Any], batches: Iterable[Batch], *args, **kwargs) -> tuple[Any, np.ndarray]:
    """Applies `compute` to the images of each batch. Returns all results, joined, and the labels of the same images.

    Args:
      compute: from the images of a batch to a structure of tensors [n, …].
      batches: and further arguments as for `with_masks`.
    """
    parts, labels = [], []
    for batch, mask in with_masks(batches, *args, **kwargs):
        parts.append(tf.nest.map_structure(lambda made, mask=mask: made.numpy()[mask], compute(batch["image"])))
        labels.append(batch["label"].numpy()[mask])
    return tf.nest.map_structure(lambda *each: np.concatenate(each), *parts), np.concatenate(labels)
