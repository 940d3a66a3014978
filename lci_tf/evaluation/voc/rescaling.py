"""Rescales weights such that all layers learn at about the same rate, as Krähenbühl et al. propose.

See "Data-dependent initializations of convolutional neural networks". *Within* each new layer, weights are drawn from
N(0, 1) and normalised such that every channel has unit variance and the mean `BIAS`. *Between* layers, new or
pre-trained, weights are scaled until a gradient at the top changes each layer by the same proportion. This does not
change the function of the network: the factors multiply to 1, and ReLU and max-pooling commute with them.

Their code also multiplies the common target by a power of the output's standard deviation, which brings the output to
unit deviation. This is left out, so that the output of a pre-trained network keeps its size.
"""

from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    from lci_tf.evaluation.voc.trunk import Trunk

BIAS = 0.1
IMAGES = 160  # number to measure the variance of channels on
_BATCH, _ROUNDS, _ENOUGH = 16, 10, 0.01


def rescale(trunk: "Trunk", images: tf.Tensor, new: list[str], seed: int = 0) -> None:
    """Rescales the weights of an AlexNet trunk in place.

    Args:
      trunk: a `trunk.Trunk` with fc6 and fc7.
      images: float32 [n, size, size, 3] in [-1, 1], of the size for which fc6 is made.
      new: names of the layers with new weights.
      seed: random seed for these weights and for the gradient.
    """
    if new:
        _start_anew(trunk, images[:IMAGES], new, seed)
    for _ in range(_ROUNDS):
        ratios = gradient_ratios(trunk, images[:_BATCH], seed)
        target = np.exp(np.mean(np.log(list(ratios.values()))))
        if all(abs(ratio / target - 1) < _ENOUGH for ratio in ratios.values()):
            break
        so_far = 1.0
        for name, ratio in ratios.items():
            scale = np.sqrt(ratio / target)
            so_far *= scale
            layer = trunk.layers[name]
            layer.kernel.assign(layer.kernel * scale)
            layer.bias.assign(layer.bias * so_far)


def gradient_ratios(trunk: "Trunk", images: tf.Tensor, seed: int = 0) -> dict[str, float]:
    """For each layer, the size of its gradient relative to its weights, for a gradient from N(0, 1) at fc7."""
    kernels = {name: layer.kernel for name, layer in trunk.layers.items()}
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(list(kernels.values()))
        top = trunk.whole(images)
        drawn = tf.random.stateless_normal(tf.shape(top), [seed, 1])
        product = tf.reduce_sum(top * drawn)
    gradients = tape.gradient(product, kernels)
    mean_square = lambda values: float(tf.reduce_mean(tf.square(values)))  # noqa: E731
    return {name: np.sqrt(mean_square(gradients[name]) / mean_square(kernels[name])) for name in kernels}


def _start_anew(trunk, images, new, seed):
    """Draws and normalises the weights of the new layers, from the first to the last."""
    for number, name in enumerate(trunk.layers):
        if name not in new:
            continue
        layer = trunk.layers[name]
        layer.kernel.assign(tf.random.stateless_normal(layer.kernel.shape, [seed, 2 + number]))
        layer.bias.assign(tf.zeros_like(layer.bias))
        before_relu = _responses(trunk, name, images)
        mean, variance = tf.nn.moments(before_relu, list(range(len(before_relu.shape) - 1)))
        deviation = tf.maximum(tf.sqrt(variance), 1e-6)
        layer.kernel.assign(layer.kernel / deviation)
        layer.bias.assign(BIAS - mean / deviation)


def _responses(trunk, name, images) -> tf.Tensor:
    """The outputs of a layer before its ReLU."""
    if name.startswith("conv"):
        below = tf.keras.Model(trunk.convolutions.input, trunk.convolutions.get_layer(name).output)
        return tf.concat([below(part) for part in _parts(images)], axis=0)
    pooled = tf.concat([trunk.pool5(trunk.conv5(part)) for part in _parts(images)], axis=0)
    x = tf.reshape(pooled, [len(pooled), -1])
    if name == "fc7":
        x = trunk.fc6(x)
    layer = trunk.layers[name]
    return tf.matmul(x, layer.kernel) + layer.bias


def _parts(images):
    return [images[first : first + _BATCH] for first in range(0, len(images), _BATCH)]
