"""A SavedModel that takes encoded images or pixels, and preprocesses them within, as training and evaluation do."""

import os
import pathlib
import shutil
from collections.abc import Callable, Iterable

import tensorflow as tf

from lci_tf.serving.export import crops

# What the signatures are called, and their only input.
BYTES, PIXELS = "serving_default", "images"
BYTES_INPUT, PIXELS_INPUT = "image_bytes", "images"


def save(
    path: str | os.PathLike,
    function: Callable[[tf.Tensor], dict[str, tf.Tensor]],
    variables: Iterable[tf.Variable],
    crop_size: int,
    resize: float,
    views: str = "centre",
    assets: Iterable[str | os.PathLike] = (),
) -> None:
    """Writes a SavedModel with two signatures of the same outputs, in one piece: the old one stays until it is whole.

    `serving_default` takes `image_bytes`, strings [n]: encoded images of any size; one that cannot be read fails the
    request. `images` takes `images`, uint8 [n, height, width, 3].

    Args:
      function: views of images, float32 [n, views, crop_size, crop_size, 3] in [-1, 1], to outputs [n, …] by name.
      variables: all that it uses.
      crop_size, resize, views: see `images.preprocess` and `images.VIEWS`.
      assets: files to lay beside the graph.
    """
    path = pathlib.Path(path)

    def of_bytes(image_bytes):
        cropped, valid = crops.of_bytes(image_bytes, crop_size, resize, views)
        return function(crops.require_all(cropped, valid, image_bytes))

    def of_images(pixels):
        return function(crops.of_images(pixels, crop_size, resize, views))

    module = tf.Module()
    module.weights = list(variables)  # and not the Keras model, all of whose layers would be written as functions too
    module.assets = [tf.saved_model.Asset(os.fspath(asset)) for asset in assets]
    signatures = {
        BYTES: tf.function(of_bytes, [tf.TensorSpec([None], tf.string, BYTES_INPUT)]),
        PIXELS: tf.function(of_images, [tf.TensorSpec([None, None, None, 3], tf.uint8, PIXELS_INPUT)]),
    }
    beside, old = (path.with_name(f".{path.name}.{state}") for state in ("new", "old"))
    for leftover in (beside, old):
        shutil.rmtree(leftover, ignore_errors=True)
    tf.saved_model.save(module, os.fspath(beside), signatures)
    if path.exists():
        path.rename(old)
    beside.rename(path)
    shutil.rmtree(old, ignore_errors=True)
