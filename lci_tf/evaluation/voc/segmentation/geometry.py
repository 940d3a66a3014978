"""Where the scores of a fully convolutional network lie in the image, to pad images and to upsample scores.

A score belongs to the centre of its receptive field. The first one is at pixel `first` of the padded image, and the
others follow every `stride` pixels. FCN crops the upsampled scores instead, by an offset that was worked out for one
network: 18 for Caffe's AlexNet, which is (63 - 1) / 2 + 100 - `first`. Here `first` is measured, for any network.
"""

import dataclasses
import math

import numpy as np
import tensorflow as tf

from lci_tf.models.layers import CHANNEL_MEANS

_SIDE = 1024  # side of the image for measuring, in pixels: many strides of any network
_KEPT = (tf.keras.layers.ZeroPadding2D, tf.keras.layers.Cropping2D, tf.keras.layers.Concatenate)


@dataclasses.dataclass(frozen=True)
class Geometry:
    """The positions of scores in the padded image, along each side.

    Attributes:
      stride: pixels from one score to the next.
      first: pixel in the centre of the first score's receptive field, counted from 0.
      size: side of the smallest padded image; others are larger by whole strides. Then no layer has to round sizes, so
        that `first` is the same for all sizes, and no pixels are left over.
    """

    stride: int
    first: float
    size: int

    def padded(self, side: tf.Tensor | int, padding: int) -> tf.Tensor:
        """The side of a padded image, with `padding` pixels before the image and at least as many after it."""
        strides = (side + 2 * padding - self.size + self.stride - 1) // self.stride
        return self.size + tf.maximum(strides, 0) * self.stride

    @property
    def least_padding(self) -> int:
        """The padding with which scores cover the image: there is one less than a stride from each border."""
        return max(0, math.floor(self.first) - self.stride + 1)


def measure(network: tf.keras.Model) -> Geometry:
    """Measures a network from images [n, height, width, 3] to scores, made of convolutions, pooling and sums.

    In a copy of the network, all sliding windows compute means, and other layers pass on their inputs. For an image
    whose pixels are their own coordinates, the outputs are the centres of the receptive fields. Where branches with
    different centres are summed, as at ResNet's shortcuts, it is their mean.
    """
    ramp = np.broadcast_to(np.arange(_SIDE, dtype=np.float32)[:, None, None], [_SIDE, _SIDE // 2, 3])
    middles = tf.keras.models.clone_model(network, clone_function=_mean_of_window)(ramp[np.newaxis])
    middles = middles[0, :, middles.shape[2] // 2, 0].numpy()
    inner = len(middles) // 2  # far from the borders
    stride = round(float(middles[inner + 1] - middles[inner]))
    first = float(middles[inner] - inner * stride)
    strided = [layer.padding for layer in network.layers if max(getattr(layer, "strides", (1,))) > 1]
    size = (_SIDE // stride - len(middles) + 1) * stride if "same" in strided else round(2 * first + 1)
    return Geometry(stride, first, size)


def _mean_of_window(layer):
    if isinstance(layer, tf.keras.Model):
        return tf.keras.models.clone_model(layer, clone_function=_mean_of_window)
    if isinstance(layer, _KEPT):
        return layer.from_config(layer.get_config())
    window = getattr(layer, "pool_size", None) or getattr(layer, "kernel_size", None)
    if window:
        return tf.keras.layers.AveragePooling2D(window, layer.strides, layer.padding, name=layer.name)
    if isinstance(layer, (tf.keras.layers.Add, tf.keras.layers.Multiply)):
        return tf.keras.layers.Average(name=layer.name)
    return tf.keras.layers.Activation("linear", name=layer.name)


def pad(images: tf.Tensor, geometry: Geometry, padding: int) -> tf.Tensor:
    """Pads images [n, height, width, 3] in [-1, 1] to a suitable size, with the mean colour, which C sees as zeros."""
    nothing = tf.constant(CHANNEL_MEANS) / 127.5 - 1.0
    behind = [geometry.padded(side, padding) - side - padding for side in tf.unstack(tf.shape(images)[1:3])]
    return tf.pad(images - nothing, [[0, 0], [padding, behind[0]], [padding, behind[1]], [0, 0]]) + nothing


def upsample(scores: tf.Tensor, size: tf.Tensor, geometry: Geometry, padding: int) -> tf.Tensor:
    """Interpolates scores [n, h, w, classes] of a padded image bilinearly at every pixel of the image.

    This combines FCN's fixed transposed convolution, with kernels of side 2 · stride - 1 (63 for 32), and its crop, as
    a product of small matrices. As in FCN, scores fade to zero beyond the outermost ones.

    Args:
      size: int32 [2], height and width of the image.

    Returns:
      [n, height, width, classes]
    """
    h, w = tf.unstack(tf.shape(scores)[1:3])
    rows = _weights(size[0], h, geometry, padding)
    columns = _weights(size[1], w, geometry, padding)
    return tf.einsum("yh,nhwc,xw->nyxc", rows, scores, columns, optimize="optimal")


def _weights(pixels, count, geometry, padding):
    """The weight of each score at each pixel, float32 [pixels, count]."""
    at = (tf.range(pixels, dtype=tf.float32) + padding - geometry.first) / geometry.stride
    return tf.nn.relu(1.0 - tf.abs(at[:, tf.newaxis] - tf.range(count, dtype=tf.float32)))
