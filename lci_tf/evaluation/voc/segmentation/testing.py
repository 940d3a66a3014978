"""Predicts the masks of all test images, scores them, and finds the worst."""

import heapq
import pathlib
from typing import Any

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from lci_tf.evaluation.results import number, percent
from lci_tf.evaluation.voc.segmentation import masks
from lci_tf.evaluation.voc.segmentation.loading import Example, Loader, of_one_size, resized
from lci_tf.evaluation.voc.segmentation.masked_images import MaskedImages
from lci_tf.evaluation.voc.segmentation.masks import VOID
from lci_tf.evaluation.voc.segmentation.network import FCN
from lci_tf.evaluation.voc.segmentation.scoring import Score, confusion, score

_SHOWN = 8  # images in a picture


class Shown:
    """Collects the images to draw: some at regular intervals, and the worst.

    Attributes:
      some, worst: pairs (example, predicted mask).
    """

    def __init__(self, count: int):
        self._numbers = set(np.linspace(0, count - 1, min(count, _SHOWN)).round().astype(int).tolist())
        self.some: list[tuple[Example, np.ndarray]] = []
        self._worst: list[tuple[float, int, Example, np.ndarray]] = []

    def add(self, example: Example, found: np.ndarray) -> None:
        if example.number in self._numbers:
            self.some.append((example, found))
        counts = example.mask != VOID
        wrong = float((example.mask != found)[counts].mean()) if counts.any() else 0.0
        heapq.heappush(self._worst, (wrong, -example.number, example, found))
        if len(self._worst) > _SHOWN:
            heapq.heappop(self._worst)

    @property
    def worst(self) -> list[tuple[Example, np.ndarray]]:
        return [pair for *_, pair in sorted(((w, n, (e, f)) for w, n, e, f in self._worst), reverse=True)]


def test(fcn: FCN, source: MaskedImages, loader: Loader, at_once: int, folder: pathlib.Path) -> tuple[Score, Shown]:
    """Writes the predicted mask of every image below `folder`, with the same numbers as the data set's masks."""
    spec = tf.TensorSpec([None, None, None, 3], tf.uint8)
    classify = tf.function(lambda images: tf.argmax(fcn(images), axis=-1), input_signature=[spec])
    total, shown = np.zeros([len(source.names)] * 2, np.int64), Shown(source.count)
    numbers = source.numbers
    bar = tqdm(desc="testing", total=source.count, unit=" images", dynamic_ncols=True)
    with bar:
        for group in of_one_size(loader.testing(), at_once):
            for example, found in zip(group, classify(np.stack([e.image for e in group])).numpy(), strict=True):
                found = resized(found.astype(np.uint8), example.mask.shape)
                total += confusion(example.mask, found, len(source.names))
                shown.add(example, found)
                path = folder / f"{source.name_of(example.number)}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                masks.write(path, numbers[found])
            bar.update(len(group))
    shown.some.sort(key=lambda pair: pair[0].number)
    return score(total), shown


def summary(found: Score, source: MaskedImages) -> dict[str, Any]:
    """The score as plain values for JSON, in which NaN becomes null."""
    return {
        "mean_iou": number(found.mean_iou),
        "pixel_accuracy": number(found.pixel_accuracy),
        "test_images": source.count,
        "per_class": {name: number(value) for name, value in zip(source.names, found.iou, strict=True)},
    }


def table(results: dict[str, Any]) -> str:
    """A table in percent: mean IoU, pixel accuracy, and the IoU of each class."""
    margin = max(map(len, ["pixel accuracy", *results["per_class"]])) + 2
    rows = {"mean IoU": results["mean_iou"], "pixel accuracy": results["pixel_accuracy"]}
    lines = [f"Segmentation in percent, on {results['test_images']:,} test images"]
    lines += [f"  {name:{margin}s}{percent(value):>9s}" for name, value in rows.items()]
    lines += ["  IoU of each class"]
    lines += [f"  {name:{margin}s}{percent(value):>9s}" for name, value in results["per_class"].items()]
    return "\n".join(lines)
