"""Some images of a source with their features, and where these lie on a map."""

import dataclasses
import pathlib

import numpy as np

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
    """Images that can be read, in the stored order.

    Attributes:
      features: by layer, float32 [n, channels]: feature maps of the centre crops, globally pooled.
      thumbnails: uint8 [n, 64, 64, 3].
      labels: int64 [n] or int8 [n, classes], see `Source`; None if there are none.
      facts: what is known of each image, in words, by what it is.
    """

    features: dict[str, np.ndarray]
    thumbnails: np.ndarray
    labels: np.ndarray | None
    facts: dict[str, list[str]]


def atlas(features_model, source: Source, crops: pipeline.Crops, report: InputReport, folder: pathlib.Path) -> Atlas:
    """Looks at all images of a source.

    Args:
      features_model, report, folder: see `crop_features`.
    """

    def pooled(images, training):
        return {layer: pool(maps, 1) for layer, maps in features_model(images, training=training).items()}

    found = crop_features(pooled, source, crops, "centre", _BATCH, report, folder)
    labels = None if source.label_kind == "none" else labelled.labels_of(source)[found.numbers]
    return Atlas(
        features={layer: rows[:] for layer, rows in found.layers.items()},
        thumbnails=retrieval.tiles(source, found.numbers, _THUMBNAIL),
        labels=labels,
        facts={**_named(source, labels), "image": [source.where(int(number)) for number in found.numbers]},
    )


def on_a_plane(features: np.ndarray, seed: int = 0) -> np.ndarray:
    """float32 [n, d] to [n, 2], by t-SNE: where standardised features have a large cosine, images lie together."""
    from sklearn.manifold import TSNE
    from sklearn.preprocessing import normalize
    from threadpoolctl import threadpool_limits

    count = len(features)
    if count < 5:
        raise InputError(f"a map needs five images at least, and there are {count} that can be read")
    # Of vectors of length 1, those with the largest cosine are the nearest.
    unit = normalize(Standardisation.of(features)(features))
    # Of few images, threads wait for each other longer than they work, on a busy machine ten times as long.
    with threadpool_limits(1 if count < 5000 else None):
        return TSNE(init="pca", perplexity=min(30, (count - 1) / 3), random_state=seed).fit_transform(unit)


def _named(source, labels) -> dict[str, list[str]]:
    if source.label_kind == "class":
        return {"class": [source.label_names[label] if label >= 0 else "none" for label in labels]}
    if source.label_kind == "multi-label":
        words = np.array(["no", "yes", "not known"])  # 0, 1 and -1
        return {name: words[column].tolist() for name, column in zip(source.label_names, labels.T, strict=True)}
    return {}
