"""The feature maps of a source's images, average-pooled to a few bins: what closed-form probes and kNN work on."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from lci_tf.data import pipeline
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import Source
from lci_tf.evaluation.probe.head_evaluation import counted
from lci_tf.models.pooling import pool

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
      report: told of unreadable images. These are left out, as are images without a class (-1).

    Returns:
      Layer -> float32 [n, bins · bins, channels], and labels: int64 [n], or int8 [n, c] where an image may have
      several.
    """

    @tf.function(input_signature=[tf.TensorSpec([None, crops.crop_size, crops.crop_size, 3], tf.float32)])
    def pooled(images):
        maps = features_model(images, training=False)
        return {layer: _by_place(pool(feature_map, grid)) for layer, feature_map in maps.items()}

    features: dict[str, list[np.ndarray]] = {}
    labels = []
    batches = pipeline.evaluation_batches(source, crops, batch_size, report)
    bar = tqdm(total=source.count, desc=f"features of {source.split}", unit=" images", leave=False)
    with report.one_line_errors(), bar:
        for batch in batches:
            counts = counted(batch)
            for layer, rows in pooled(batch["image"][:, 0]).items():
                features.setdefault(layer, []).append(rows.numpy()[counts])
            labels.append(batch["label"].numpy()[counts])
            bar.update(len(counts))
    return {layer: np.concatenate(rows) for layer, rows in features.items()}, np.concatenate(labels)


def _by_place(pooled):
    _, height, width, channels = pooled.shape
    return tf.reshape(pooled, [-1, height * width, channels])
