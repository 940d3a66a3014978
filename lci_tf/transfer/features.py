"""The feature maps of a source's images, average-pooled to a few bins: what closed-form probes and kNN work on."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from lci_tf.data import pipeline
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import Source

Maps = dict[str, tf.Tensor]


def pooled_features(
    features_model: Callable[..., Maps],
    source: Source,
    crops: pipeline.Crops,
    batch_size: int,
    grid: int,
    report: InputReport,
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Features of the centre crops of a labelled source, in the stored order.

    Args:
      features_model: from images, float32 [n, crop, crop, 3] in [-1, 1], to maps [n, height, width, channels] by layer;
        called with `training=False`.
      grid: bins along each side to which a map is pooled; see `pool`.
      report: told of unreadable images. These are left out, as are images without a label (-1).

    Returns:
      Layer -> float32 [n, bins · bins · channels], and labels: int64 [n].
    """

    @tf.function(input_signature=[tf.TensorSpec([None, crops.crop_size, crops.crop_size, 3], tf.float32)])
    def pooled(images):
        maps = features_model(images, training=False)
        return {layer: _flat(pool(feature_map, grid)) for layer, feature_map in maps.items()}

    features: dict[str, list[np.ndarray]] = {}
    labels = []
    batches = pipeline.evaluation_batches(source, crops, batch_size, report)
    bar = tqdm(total=source.count, desc=f"features of {source.split}", unit=" images", leave=False)
    with report.one_line_errors(), bar:
        for batch in batches:
            counts = (batch["valid"] & (batch["label"] >= 0)).numpy()
            for layer, rows in pooled(batch["image"][:, 0]).items():
                features.setdefault(layer, []).append(rows.numpy()[counts])
            labels.append(batch["label"].numpy()[counts])
            bar.update(len(counts))
    return {layer: np.concatenate(rows) for layer, rows in features.items()}, np.concatenate(labels)


def pool(feature_map: tf.Tensor, grid: int) -> tf.Tensor:
    """[n, height, width, channels] to float32 [n, grid, grid, channels]: means over equal parts of the map.

    A pixel that lies in two bins counts in each with its share. Where the map has fewer pixels than bins, it is taken
    as it is.
    """
    _, height, width, _ = feature_map.shape
    # In float32 whatever the map is in: a sum over a map does not fit into half precision.
    return tf.einsum("nhwc,gh,kw->ngkc", tf.cast(feature_map, tf.float32), _bins(height, grid), _bins(width, grid))


def _bins(size, grid) -> np.ndarray:
    """float32 [bins, size]: how much each pixel counts in the mean of each bin. Rows sum to 1."""
    bins = min(grid, size)
    edges = np.arange(bins + 1)[:, None] * size / bins
    pixels = np.arange(size)
    overlap = np.minimum(edges[1:], pixels + 1) - np.maximum(edges[:-1], pixels)
    return (np.maximum(overlap, 0) * bins / size).astype(np.float32)


def _flat(rows):
    return tf.reshape(rows, [-1, np.prod(rows.shape[1:])])
