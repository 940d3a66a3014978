"""An exported or a pre-trained network as a Keras layer."""

import os
import pathlib

import tensorflow as tf

from lci_tf.errors import InputError
from lci_tf.files import absolute
from lci_tf.runs import export_folder, trained
from lci_tf.serving import served_features

_FUNCTIONS = ("features_of_pixels", "of_levels")  # of exports of today, and of older ones


def load_features(
    path: str | os.PathLike, feature: str = served_features.EMBEDDING, trainable: bool = False
) -> tf.keras.layers.Layer:
    """A layer from images, grey levels 0…255 [n, height, width, 3] of any size, to features.

        classifier = tf.keras.Sequential([lci_tf.load_features("runs/stl10"), tf.keras.layers.Dense(10)])

    Batch normalisation uses the statistics of the pre-training, also while the layer is trained.

    Args:
      path: a run, a checkpoint of one, an export, or a version of one.
      feature: `"embedding"`, float32 [n, channels] of length 1; or a map, such as `"conv5"`.
      trainable: whether training a model with this layer changes its weights.
    """
    place = pathlib.Path(absolute(path))
    if place.is_dir() and not (place / "run.flags").is_file():
        version = place if (place / "saved_model.pb").is_file() else export_folder.folder_of(place)
        layer = _OfExport(version)
    else:
        layer = _OfRun(trained.from_run(place, flag="path"))
    if feature not in layer.names:
        raise InputError(f"feature={feature}: unknown; there are {', '.join(layer.names)}")
    layer.feature, layer.trainable = feature, trainable
    return layer


class _Features(tf.keras.layers.Layer):
    feature: str

    def call(self, inputs):
        return self.all_of(tf.cast(inputs, tf.float32))[self.feature]


class _OfRun(_Features):
    def __init__(self, model: trained.FeatureModel):
        super().__init__(name="features", autocast=False)
        self.maps, self.names = model.maps, (served_features.EMBEDDING, *model.layers)

    def all_of(self, pixels):
        return served_features.features_of_pixels(self.maps, pixels)


class _OfExport(_Features):
    def __init__(self, folder: pathlib.Path):
        super().__init__(name="features", autocast=False)
        loaded = tf.saved_model.load(str(folder))
        name = next((name for name in _FUNCTIONS if hasattr(loaded, name)), None)
        if name is None:
            raise InputError(f"{folder}: is a SavedModel, but not an export of lci_tf")
        self._loaded = loaded  # which would be gone otherwise, and its variables with it
        self._features_of_pixels = getattr(loaded, name)
        # Keras looks for variables among its own; these say which of them can be trained.
        self._weights_found = list(loaded.feature_weights)
        self.names = tuple(self._features_of_pixels.concrete_functions[0].structured_outputs)

    def all_of(self, pixels):
        return self._features_of_pixels(pixels)
