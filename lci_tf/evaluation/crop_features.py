"""Computes whole feature maps of several crops of each image, as flat vectors on disk, for kNN and retrieval."""

import dataclasses
import pathlib
import shutil
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from lci_tf.data import pipeline
from lci_tf.data.extraction import with_masks
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import Source
from lci_tf.errors import InputError
from lci_tf.evaluation.feature_file import FeatureFile
from lci_tf.imaging import images


@dataclasses.dataclass(frozen=True)
class CropFeatures:
    """Features of a source's images, on disk.

    Attributes:
      layers: layer -> features [n, crops · height · width · channels], crop after crop.
      numbers: int64 [n], indices of the images in the source: all that can be read.
      labels: int64 [n]; None if the source has no classes.
    """

    layers: dict[str, FeatureFile]
    numbers: np.ndarray
    labels: np.ndarray | None


def crop_features(
    features_model: Callable[..., dict[str, tf.Tensor]],
    source: Source,
    crops: pipeline.Crops,
    views: str,
    batch_size: int,
    report: InputReport,
    folder: pathlib.Path,
    only_labelled: bool = False,
) -> CropFeatures:
    """Computes features of all images of a source, in the stored order.

    Args:
      features_model: from images, float32 [n, crop, crop, 3] in [-1, 1], to maps [n, height, width, channels] by layer;
        called with `training=False`.
      source: the images.
      crops: size of the crops.
      views: the crops of each image, a name in `images.VIEWS`.
      batch_size: images per batch, each with all its crops.
      report: collects unreadable images.
      folder: folder with enough room for the features; see `FeatureFile`.
      only_labelled: whether to leave out images without a label (-1).
    """
    flat_maps = _flat_maps(features_model, crops.crop_size, len(images.VIEWS[views]))
    layers = {layer: FeatureFile(folder) for layer in flat_maps.structured_outputs}
    numbers: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    batches = pipeline.evaluation_batches(source, crops, batch_size, report, views)
    for batch, mask in with_masks(batches, source.count, f"features of {source.split}", report, only_labelled):
        for layer, features in flat_maps(batch["image"]).items():
            rows = features.numpy()[mask]
            if not np.isfinite(rows).all():
                raise InputError(f"{layer}: its features are not finite; did the training of this network diverge?")
            layers[layer].append(rows)
        if not numbers:
            _check_room(layers.values(), len(mask), source.count, folder)
        numbers.append(batch["index"].numpy()[mask])
        if source.label_kind == "class":
            labels.append(batch["label"].numpy()[mask])
    return CropFeatures(layers, np.concatenate(numbers), np.concatenate(labels) if labels else None)


def _check_room(written, rows, count, folder):
    """Refuses, after the first batch, features that would not fit onto the disk."""
    needed = sum(4 * features.shape[1] for features in written) * ((count or 0) - rows)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise InputError(f"{folder}: features of {count:,} images take another {needed / 1e9:.1f} GB for a while, but "
                         f"only {free / 1e9:.1f} GB are free; choose another --out_dir")  # fmt: skip


def _flat_maps(features_model, crop_size, per_image):
    """A compiled function from images [n, per_image, crop, crop, 3] to layer -> float32 [n, values of all maps]."""

    @tf.function(input_signature=[tf.TensorSpec([None, per_image, crop_size, crop_size, 3], tf.float32)])
    def flat_maps(batch):
        maps = features_model(tf.reshape(batch, [-1, crop_size, crop_size, 3]), training=False)
        return {layer: tf.reshape(tf.cast(m, tf.float32), [tf.shape(batch)[0], -1]) for layer, m in maps.items()}

    try:
        return flat_maps.get_concrete_function()
    except ValueError:  # its message is a page long
        raise InputError(f"--crop_size={crop_size}: the network does not accept images of this size") from None
