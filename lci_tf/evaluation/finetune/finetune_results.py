"""Writes the results of a fine-tuning, whose folder contains:

results.json, protocol.json   see `results_folder`
model.keras                   the classifier, from images in [-1, 1] to feature maps, logits and probabilities
export/1/                     a SavedModel from encoded images or pixels to probabilities and names, for TF Serving
labels.txt                    names of the classes, one per line
confusion.png                 the confusion matrix, if images have one class each
training_images.png           some training images as the network sees them
metrics.jsonl, tensorboard/   metrics during training
checkpoints/                  deleted when it is finished
"""

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from lci_tf import files
from lci_tf.evaluation import metrics
from lci_tf.evaluation.results import MULTI, SINGLE, summary
from lci_tf.evaluation.results import table as of_layers


def save_network(folder: pathlib.Path, network: tf.keras.Model, label_names: Sequence[str]) -> tf.keras.Model:
    """Writes `model.keras` and `labels.txt`. Returns the network as it is loaded from the file."""
    beside = folder / ".new.keras"
    network.save(beside)
    beside.replace(folder / "model.keras")
    files.replace_file(folder / "labels.txt", "".join(f"{name}\n" for name in label_names))
    return tf.keras.models.load_model(folder / "model.keras", compile=False)


def evaluate(
    folder: pathlib.Path, probabilities: np.ndarray, labels: np.ndarray, label_names: Sequence[str]
) -> dict[str, Any]:
    """Evaluates the centre crop and, if there are several views, their mean, as plain values. Draws `confusion.png`.

    Args:
      folder: where to draw it.
      probabilities: float32 [n, views, classes]; the first view is the centre.
      labels: labels as in `Source`.
      label_names: names of the classes.
    """
    from lci_tf.plotting import plots

    found = {SINGLE: metrics.evaluate(probabilities[:, 0], labels)}
    if probabilities.shape[1] > 1:
        found[MULTI] = metrics.evaluate(probabilities.mean(axis=1), labels)
    confusion = list(found.values())[-1].confusion
    if confusion is not None:
        plots.save(plots.confusion_matrix(confusion, tuple(label_names)), folder / "confusion.png")
    return {crops: summary([evaluation], label_names) for crops, evaluation in found.items()}


def table(results: dict[str, Any]) -> str:
    """The results as a table in percent: for a single crop, for ten crops if there are, and for each class."""
    # Earlier versions wrote the names with spaces.
    found = {key.replace(" ", "_"): value for key, value in results.items()}
    return of_layers({"fine-tuned": {crops: found[crops] for crops in (SINGLE, MULTI) if crops in found}})
