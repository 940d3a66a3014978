"""Collects images with their features and thumbnails, and projects features to a two-dimensional map."""

import dataclasses
import pathlib
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from lci_tf.data import labelled, pipeline
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import Source
from lci_tf.errors import InputError
from lci_tf.evaluation.crop_features import crop_features
from lci_tf.evaluation.neighbours import retrieval
from lci_tf.evaluation.standardisation import Standardisation
from lci_tf.models.pooling import pool

_BATCH = 64
_THUMBNAIL = 64  # pixels along a side


@dataclasses.dataclass(frozen=True)
class Atlas:
    """Images with their features, in the stored order, without those that cannot be read.

    Attributes:
      features: layer -> float32 [n, channels], the globally pooled feature maps of the centre crops.
      thumbnails: uint8 [n, 64, 64, 3].
      labels: int64 [n] or int8 [n, classes], see `Source`; None if there are none.
      facts: name of a fact, such as "class" or "image" -> a text for each image.
    """

    features: dict[str, np.ndarray]
    thumbnails: np.ndarray
    labels: np.ndarray | None
    facts: dict[str, list[str]]


def atlas(
    features_model: Callable[..., dict[str, tf.Tensor]],
    source: Source,
    crops: pipeline.Crops,
    report: InputReport,
    folder: pathlib.Path,
) -> Atlas:
    """Collects all images of a source.

    Args:
      features_model, source, crops, report, folder: see `crop_features`.
    """

    def pooled(images, training):
        return {layer: pool(maps, 1) for layer, maps in features_model(images, training=training).items()}

    found = crop_features(pooled, source, crops, "centre", _BATCH, report, folder)
    labels = None if source.label_kind == "none" else labelled.labels_of(source)[found.numbers]
    return Atlas(
        features={layer: rows[:] for layer, rows in found.layers.items()},
        thumbnails=retrieval.thumbnails(source, found.numbers, _THUMBNAIL),
        labels=labels,
        facts={**_named(source, labels), "image": [source.where(int(number)) for number in found.numbers]},
    )


def on_a_plane(features: np.ndarray, seed: int = 0) -> np.ndarray:
    """Projects features, float32 [n, d], to [n, 2] with t-SNE: large cosines of standardised features become close."""
    from sklearn.manifold import TSNE
    from sklearn.preprocessing import normalize
    from threadpoolctl import threadpool_limits

    count = len(features)
    if count < 5:
        raise InputError(f"a map needs at least five images, but only {count} can be read")
    # For vectors of length 1, the largest cosine is the smallest distance.
    unit = normalize(Standardisation.of(features)(features))
    # With few images, threads spend more time waiting for each other than working, on a busy machine ten times as much.
    with threadpool_limits(1 if count < 5000 else None):
        return TSNE(init="pca", perplexity=min(30, (count - 1) / 3), random_state=seed).fit_transform(unit)


def _named(source, labels) -> dict[str, list[str]]:
    if source.label_kind == "class":
        return {"class": [source.label_names[label] if label >= 0 else "none" for label in labels]}
    if source.label_kind == "multi-label":
        words = np.array(["no", "yes", "unknown"])  # for 0, 1 and -1
        return {name: words[column].tolist() for name, column in zip(source.label_names, labels.T, strict=True)}
    return {}
