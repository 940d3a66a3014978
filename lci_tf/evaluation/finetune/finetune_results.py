"""What a fine-tuning leaves behind.

results.json, protocol.json   see `results_folder`
model.keras                   images in [-1, 1] to feature maps, logits and probabilities
saved_model/                  encoded images or pixels to probabilities and names
labels.txt                    names of the classes, a line each
confusion.png                 what was taken for what, where images have one class each
training_images.png           what the network was shown
metrics.jsonl, tensorboard/   how it went
checkpoints/                  until it is finished
"""

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from lci_tf import files
from lci_tf.evaluation import metrics

SINGLE, MULTI = "single crop", "ten crops"
_SHOWN_LABELS = 50  # a table of more is for a file


def save_network(folder: pathlib.Path, network: tf.keras.Model, label_names: Sequence[str]) -> tf.keras.Model:
    """Writes `model.keras` and `labels.txt`, and gives the network as others will load it."""
    beside = folder / ".new.keras"
    network.save(beside)
    beside.replace(folder / "model.keras")
    files.replace_file(folder / "labels.txt", "".join(f"{name}\n" for name in label_names))
    return tf.keras.models.load_model(folder / "model.keras", compile=False)


def evaluate(
    folder: pathlib.Path, probabilities: np.ndarray, labels: np.ndarray, label_names: Sequence[str]
) -> dict[str, Any]:
    """By one crop and, if there are several, by all: plain values. Draws `confusion.png`.

    Args:
      probabilities: float32 [n, views, classes], the first view being the centre.
    """
    from lci_tf.plotting import plots

    found = {SINGLE: metrics.evaluate(probabilities[:, 0], labels)}
    if probabilities.shape[1] > 1:
        found[MULTI] = metrics.evaluate(probabilities.mean(axis=1), labels)
    confusion = list(found.values())[-1].confusion
    if confusion is not None:
        plots.save(plots.confusion_matrix(confusion, tuple(label_names)), folder / "confusion.png")
    return {crops: _summary(evaluation, label_names) for crops, evaluation in found.items()}


def _summary(found, label_names):
    per_class = {name: _number(value) for name, value in zip(label_names, found.per_class, strict=True)}
    return {found.kind: _number(found.value), "test_images": found.count, "per_class": per_class}


def table(results: dict[str, Any]) -> str:
    """In percent: by one crop, by ten if they were taken, and class by class."""
    columns = {crops: results[crops] for crops in (SINGLE, MULTI) if crops in results}
    first = columns[SINGLE]
    kind = next(iter(first))
    labels = list(first["per_class"]) if len(first["per_class"]) <= _SHOWN_LABELS else []
    margin = max(len(text) for text in [*labels, "all"]) + 2

    def row(name, cells):
        return f"  {name:{margin}s}" + "".join(f"{cell:>13s}" for cell in cells)

    lines = [f"{kind.capitalize()} in percent, on {first['test_images']:,} images", row("", columns)]
    lines.append(row("all", [_percent(column[kind]) for column in columns.values()]))
    for label in labels:
        lines.append(row(label, [_percent(column["per_class"][label]) for column in columns.values()]))
    return "\n".join(lines)


def _percent(value):
    return "–" if value is None else f"{100 * value:.1f}"


def _number(value) -> float | None:
    """JSON has no word for what is not a number."""
    return None if np.isnan(value) else float(value)
