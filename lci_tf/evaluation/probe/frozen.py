"""Turns a network's feature maps into inputs for linear classifiers: frozen, pooled as in the protocol, flattened."""

import math

import tensorflow as tf

from lci_tf.config.probe_protocols import WINDOWS, ProbeProtocol
from lci_tf.errors import InputError
from lci_tf.models.pooling import grid_of, pool
from lci_tf.runs.trained import FeatureModel


class FrozenFeatures:
    """A function from images, float32 [n, crop, crop, 3] in [-1, 1], to layer -> features, float32 [n, units].

    The network runs once for all layers, and in inference mode, so its variables do not change.

    Attributes:
      layers: names of the feature maps.
      units: layer -> number of units.
      channels: layer -> number of channels. Units are ordered by position, each with all channels.
    """

    def __init__(self, model: FeatureModel, protocol: ProbeProtocol):
        self._maps, self._protocol = model.maps, protocol
        self._shapes = _map_shapes(model, protocol.crop_size)
        self.layers = model.layers
        one = {layer: tf.zeros([1, *shape]) for layer, shape in self._shapes.items()}
        self.channels = {layer: shape[-1] for layer, shape in self._shapes.items()}
        self.units = {layer: math.prod(self._pool(layer, one[layer]).shape[1:]) for layer in self.layers}

    def __call__(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
        maps = self._maps(images, training=False)
        return {layer: self._flat(layer, maps[layer]) for layer in self.layers}

    def _flat(self, layer, feature_map):
        known = tf.ensure_shape(tf.cast(feature_map, tf.float32), [None, *self._shapes[layer]])
        return tf.reshape(self._pool(layer, known), [-1, self.units[layer]])

    def _pool(self, layer, feature_map):
        if self._protocol.grid:
            return pool(feature_map, self._protocol.grid)
        return pool_to_units(layer, feature_map) if self._protocol.pooled else feature_map


def pool_to_units(layer: str, feature_map: tf.Tensor) -> tf.Tensor:
    """Average-pools a map [n, height, width, channels] to about 9,000 units per image.

    It uses the authors' windows if they give the intended number of bins, as for AlexNet with 227-pixel crops; else it
    pools over the same number of equal parts of the map.
    """
    side = grid_of(feature_map.shape[-1])
    if layer in WINDOWS:
        window, padding = WINDOWS[layer]
        pooled = tf.nn.avg_pool2d(feature_map, window, window, padding)
        if pooled.shape[1:3] == [side, side]:
            return pooled
    return pool(feature_map, side)


def _map_shapes(model, crop_size):
    """The shapes of the maps: layer -> (height, width, channels)."""

    def trace():
        # Only traced if possible, as TensorFlow's convolutions may crash when run on images that are too small.
        images = tf.TensorSpec([None, crop_size, crop_size, 3])
        traced = tf.function(lambda x: model.maps(x, training=False)).get_concrete_function(images)
        shapes = {layer: feature_map.shape[1:] for layer, feature_map in traced.structured_outputs.items()}
        if not all(shape.is_fully_defined() for shape in shapes.values()):  # shapes in a SavedModel may be incomplete
            maps = traced(tf.zeros([1, crop_size, crop_size, 3]))
            shapes = {layer: feature_map.shape[1:] for layer, feature_map in maps.items()}
        return {layer: tuple(shape) for layer, shape in shapes.items()}

    try:
        return trace()
    except (ValueError, tf.errors.OpError) as error:  # its message is a page long
        made_for = f"; it was made for {model.crop_size} pixels" if model.crop_size else ""
        raise InputError(
            f"--crop_size={crop_size}: the network does not accept images of this size{made_for}"
        ) from error
