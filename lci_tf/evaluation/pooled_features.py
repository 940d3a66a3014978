"""Computes feature maps of a source's images, average-pooled to a few bins, for closed-form probes and kNN."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from lci_tf.data import pipeline
from lci_tf.data.extraction import extract
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import Source
from lci_tf.models.pooling import pool

Maps = dict[str, tf.Tensor]


def pooled_features(
    features_model: Callable[..., Maps],
    source: Source,
    crops: pipeline.Crops,
    batch_size: int,
    grid: int,
    report: InputReport,
    doing: str = "features",
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Computes features of the centre crops of a labelled source, in the stored order.

    Args:
      features_model: from images, float32 [n, crop, crop, 3] in [-1, 1], to maps [n, height, width, channels] by layer;
        called with `training=False`.
      source: the images.
      crops: size of the crops.
      batch_size: images per batch.
      grid: bins along each side to which maps are pooled; see `pool`.
      report: collects unreadable images. These are left out, as are images without a class (-1).
      doing: text of the progress bar.

    Returns:
      Layer -> float32 [n, bins · bins, channels]; and labels, int64 [n], or int8 [n, c] for several per image.
    """

    @tf.function(input_signature=[tf.TensorSpec([None, 1, crops.crop_size, crops.crop_size, 3], tf.float32)])
    def pooled(images):
        maps = features_model(images[:, 0], training=False)
        return {layer: _by_place(pool(feature_map, grid)) for layer, feature_map in maps.items()}

    batches = pipeline.evaluation_batches(source, crops, batch_size, report)
    return extract(pooled, batches, source.count, doing, report)


def _by_place(pooled):
    _, height, width, channels = pooled.shape
    return tf.reshape(pooled, [-1, height * width, channels])
