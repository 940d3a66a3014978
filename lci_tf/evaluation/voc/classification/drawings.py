"""Pictures of a test: precision over recall, and the worst mistakes."""

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.metrics import precision_recall_curve

from lci_tf.data import share
from lci_tf.data.source import Source
from lci_tf.evaluation.voc.classification.training import Scores
from lci_tf.evaluation.voc.task import show_in_tensorboard
from lci_tf.imaging import images
from lci_tf.plotting import pictures, plots
from lci_tf.plotting.plots import PrecisionRecall

TRAINING, CURVES, MISTAKES = "training_images.png", "precision_recall.png", "worst_mistakes.png"
_SHOWN = 4  # mistakes of each kind and class
_CLASSES = 20  # classes whose mistakes are shown: those with the lowest average precision
_SIDE = 110


def save_test(folder: pathlib.Path, source: Source, scores: np.ndarray, found: Scores, results: dict[str, Any]) -> None:
    """Draws both pictures, as files and in TensorBoard.

    Args:
      scores: float [n, classes].
      found: those of each crop, of which they are the sums.
      results: as `testing.evaluate` returns them.
    """
    per_class = list(results.values())[-1]["per_class"]
    plots.save(precision_recall(scores, found.labels, source.label_names, per_class), folder / CURVES)
    worst = sorted((value, name) for name, value in per_class.items() if value is not None)[:_CLASSES]
    chosen = [source.label_names.index(name) for _, name in worst]
    if chosen:
        pictures.save(folder / MISTAKES, worst_mistakes(source, scores, found.labels, found.numbers, chosen))
    show_in_tensorboard(folder, (TRAINING, CURVES, MISTAKES))


def precision_recall(scores: np.ndarray, labels: np.ndarray, names: Sequence[str], per_class: dict) -> Figure:
    """Precision over recall of each class that has images, with its average precision."""
    curves = []
    for i, name in enumerate(names):
        if per_class[name] is not None:
            counts = labels[:, i] >= 0
            truth = labels[counts, i]
            precision, recall, _ = precision_recall_curve(truth, scores[counts, i])
            title = f"{name}  {100 * per_class[name]:.1f}"
            curves.append(PrecisionRecall(title, recall[:-1], precision[:-1], guessing=truth.mean()))
    return plots.precision_recall(curves, drawstyle="steps-post")


def worst_mistakes(
    source: Source, scores: np.ndarray, labels: np.ndarray, numbers: np.ndarray, classes: Sequence[int]
) -> np.ndarray:
    """A row for each class: images without it that have the highest scores, and images with it that have the lowest.

    Args:
      numbers: int64 [n], ascending, the images' numbers in the source.
    """
    rows = {i: (_first(-scores[:, i], labels[:, i] == 0), _first(scores[:, i], labels[:, i] == 1)) for i in classes}
    needed = np.unique(np.concatenate([part for pair in rows.values() for part in pair]).astype(np.int64))
    tiles = dict(zip(needed.tolist(), _tiles(source, numbers[needed]), strict=True))
    empty = np.full([_SIDE, _SIDE, 3], pictures.BACKGROUND, np.uint8)

    def column(kind, place):
        each = [rows[i][kind] for i in classes]
        return np.stack([tiles[int(part[place])] if place < len(part) else empty for part in each])

    names = np.stack([pictures.caption(source.label_names[i], _SIDE) for i in classes])
    columns = {"class": names}
    columns |= {f"taken for it {place + 1}": column(0, place) for place in range(_SHOWN)}
    columns |= {f"missed {place + 1}": column(1, place) for place in range(_SHOWN)}
    return pictures.table(columns)


def _first(keys, mask):
    """The rows with the lowest keys among those that the mask allows."""
    (allowed,) = np.nonzero(mask)
    return allowed[np.argsort(keys[allowed], kind="stable")[:_SHOWN]]


def _tiles(source, numbers):
    """Each image as a whole, fitted into a square."""
    for row in share.of_numbers(source, numbers).stream():
        yield pictures.fit(images.pixels(source.read(row["image"]), _SIDE).numpy(), _SIDE)
