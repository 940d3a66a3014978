"""Fits linear classifiers to all layers of a frozen network in closed form: fast, but without random crops."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from lci_tf.data.extraction import with_masks
from lci_tf.errors import InputError
from lci_tf.evaluation.probe import ridge
from lci_tf.evaluation.probe.frozen import FrozenFeatures
from lci_tf.evaluation.probe.head_evaluation import Found, evaluate_heads
from lci_tf.evaluation.probe.tasks import Task

LIMIT = 8 * 2**30  # bytes of features kept in memory
# More candidates than in `quick_probe`, as maps may be whole and images few.
PER_FEATURE = (30.0, *ridge.PER_FEATURE, 0.03)


class RidgeHeads:
    """A function from layer -> units [n, units] to layer -> scores [n, classes].

    Attributes:
      regularisers: layer -> chosen regulariser.
    """

    def __init__(self, fitted: dict[str, tuple[ridge.RidgeClassifier, float]], classes: int):
        self.regularisers = {layer: regulariser for layer, (_, regulariser) in fitted.items()}
        self._parameters = {layer: _parameters(classifier, classes) for layer, (classifier, _) in fitted.items()}

    def __call__(self, units: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {
            layer: tf.matmul((units[layer] - mean) / std, weights) + bias
            for layer, (mean, std, weights, bias) in self._parameters.items()
        }


def probe(
    features: FrozenFeatures,
    task: Task,
    seed: int = 0,
    parts: Sequence[np.ndarray] | None = None,
    mirror: bool = False,
) -> tuple[list[Found], list[dict[str, float]]]:
    """Fits and tests heads for each part of the training images, see `fit_heads`. Returns results and regularisers."""
    heads = fit_heads(features, task, seed, parts, mirror=mirror)
    return evaluate_heads(features, heads, task, are_logits=False), [each.regularisers for each in heads]


def fit_heads(
    features: FrozenFeatures,
    task: Task,
    seed: int = 0,
    parts: Sequence[np.ndarray] | None = None,
    limit: int = LIMIT,
    mirror: bool = False,
) -> list[RidgeHeads]:
    """Fits heads to each part of the training images, which the network sees only once.

    Args:
      features: the frozen network.
      task: the images and labels.
      seed: random seed for the choice of the fifth of the training images that selects the regulariser.
      parts: indices of the images in each part; None for one part with all images.
      limit: largest size of all features, in bytes.
      mirror: whether to train on mirrored images too.
    """
    size = 4 * task.count * (1 + mirror) * sum(features.units.values())
    if size > limit:
        raise InputError(
            f"--solver=ridge: the features of {task.count:,} images take {size / 2**30:.1f} GiB, more than "
            f"{limit / 2**30:.1f}; give fewer --layers, a --grid, or a --label_fraction; or use --solver=sgd"
        )
    units, labels, numbers = _collect(features, task, mirror)
    if labels.ndim == 2 and (labels < 0).any():
        raise InputError("--solver=ridge: cannot leave out labels that do not count (-1), which there are; "
                         "use --solver=sgd")  # fmt: skip
    rows = [np.flatnonzero(np.isin(numbers, part)) for part in parts] if parts else [slice(None)]
    found: list[dict[str, tuple[ridge.RidgeClassifier, float]]] = [{} for _ in rows]
    for layer in tqdm(features.layers, desc="solving", unit=" layers", leave=False):
        x = units.pop(layer)  # frees its memory before the next is standardised
        if not np.isfinite(x).all():
            raise InputError(f"{layer}: its features are not finite; leave it out with --layers")
        for fitted, of_part in zip(found, rows, strict=True):
            fitted[layer] = ridge.fit_best(
                x[of_part], labels[of_part], seed, PER_FEATURE, numbers[of_part], features.channels[layer]
            )
    return [RidgeHeads(fitted, len(task.label_names)) for fitted in found]


def _collect(features, task, mirror):
    """Units by layer, labels, and indices of the images, which an image and its mirror image share."""
    compute = tf.function(features, reduce_retracing=True)
    # Preallocated, as concatenating would take twice the memory.
    rows_in_all = task.count * (1 + mirror)
    units = {layer: np.empty([rows_in_all, width], np.float32) for layer, width in features.units.items()}
    labels, numbers, filled = [], [], 0
    for batch, mask in with_masks(task.train_once(), task.count, "features of train"):
        images = batch["image"][:, 0]
        for seen in [images, images[:, :, ::-1]] if mirror else [images]:
            rows = slice(filled, filled + mask.sum())
            for layer, values in compute(seen).items():
                units[layer][rows] = values.numpy()[mask]
            labels.append(batch["label"].numpy()[mask])
            numbers.append(batch["index"].numpy()[mask])
            filled = rows.stop
    units = {layer: values[:filled] for layer, values in units.items()}
    return units, np.concatenate(labels), np.concatenate(numbers)


def _parameters(classifier, classes):
    """Mean, deviation, weights and bias, with a column for every class; a class without images always scores -1."""
    weights = np.zeros([len(classifier.weights), classes], np.float32)
    bias = np.full(classes, -1, np.float32)
    weights[:, classifier.classes], bias[classifier.classes] = classifier.weights, classifier.bias
    mean, std = classifier.standardisation
    return tuple(tf.constant(array) for array in (mean, std, weights, bias))
