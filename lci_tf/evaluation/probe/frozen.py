"""A network's feature maps as a linear classifier takes them: frozen, pooled as a protocol says, laid out flat."""

import math

import tensorflow as tf

from lci_tf.config.probe_protocols import WINDOWS, ProbeProtocol
from lci_tf.errors import InputError
from lci_tf.models.pooling import grid_of, pool
from lci_tf.runs.trained import FeatureModel


class FrozenFeatures:
    """Images, float32 [n, crop, crop, 3] in [-1, 1], to float32 [n, units] by layer.

    The network runs once for all layers, and in inference mode: none of its variables move.

    Attributes:
      layers: the names of the maps.
      units: how many there are of each layer.
      channels: of each layer's map. Units are laid out place by place, each with all channels.
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
    """[n, height, width, channels] to about 9,000 units an image.

    By the authors' windows where these give the number, as they do for AlexNet's maps of images of 227 pixels; else
    by equal parts of the map, of which there are as many as the windows would have given there.
    """
    side = grid_of(feature_map.shape[-1])
    if layer in WINDOWS:
        window, padding = WINDOWS[layer]
        pooled = tf.nn.avg_pool2d(feature_map, window, window, padding)
        if pooled.shape[1:3] == [side, side]:
            return pooled
    return pool(feature_map, side)


def _map_shapes(model, crop_size):
    """Layer -> (height, width, channels)."""

    def trace():
        # Not run, as long as that will do: TensorFlow's convolutions may crash on images too small for them.
        images = tf.TensorSpec([None, crop_size, crop_size, 3])
        traced = tf.function(lambda x: model.maps(x, training=False)).get_concrete_function(images)
        shapes = {layer: feature_map.shape[1:] for layer, feature_map in traced.structured_outputs.items()}
        if not all(shape.is_fully_defined() for shape in shapes.values()):  # a SavedModel need not tell
            maps = traced(tf.zeros([1, crop_size, crop_size, 3]))
            shapes = {layer: feature_map.shape[1:] for layer, feature_map in maps.items()}
        return {layer: tuple(shape) for layer, shape in shapes.items()}

    try:
        return trace()
    except (ValueError, tf.errors.OpError) as error:  # a page of it
        made_for = f"; it was made for {model.crop_size} pixels" if model.crop_size else ""
        raise InputError(f"--crop_size={crop_size}: the network takes no images of that size{made_for}") from error
