"""Classifiers that see images only through windows of r × r pixels, and one that sees whole images.

Each computes *evidence* from images, [n, height, width]: a logit for every window, above 0 if the window looks
transformed. The mean over the windows of an image decides how it is classified.
"""

import math

import tensorflow as tf

WHOLE = "whole"
WINDOWS = (3, 5, 9, 17, 33, WHOLE)
Window = int | str
"""The side of a window, r, one more than a power of two; or `WHOLE`."""

FILTERS = 32
_DETAIL = 8.0


def classifier(window: Window, crop_size: int) -> tf.keras.Model:
    """Builds a classifier, from images [n, crop_size, crop_size, 3] in [-1, 1] to evidence."""
    return bag(window, crop_size) if isinstance(window, int) else _whole(crop_size)


def bag(window: int, crop_size: int) -> tf.keras.Model:
    """Builds a classifier that sees windows of `window` × `window` pixels.

    It uses 3×3 convolutions without padding and without normalisation over batch or positions, so evidence depends only
    on the pixels of its window. All but the first and the last have stride 2, which makes large windows cheap: it skips
    windows, but no pixels within a window. Neighbouring windows are `step_between` pixels apart.
    """
    images = tf.keras.Input([crop_size, crop_size, 3], name="images")
    x = _convolve(images, 3, kernel_initializer=_half_for_details)
    for stride in _later_strides(window):
        x = _convolve(x, 3, strides=stride)
    x = _convolve(x, 1)
    evidence = tf.keras.layers.Conv2D(1, 1, name="evidence")(x)[..., 0]
    return tf.keras.Model(images, evidence, name=f"bag_of_{window}")


def step_between(window: int) -> int:
    """The distance of neighbouring windows in pixels; the first is in the upper left corner."""
    return math.prod(_later_strides(window))


def _later_strides(window):
    """Strides of the convolutions after the first, with which r pixels are seen: 3, then 2, 4, 8, … more with each."""
    count = round(math.log2(window - 1)) - 1
    return [2] * (count - 1) + [1] * bool(count)


def _convolve(x, kernel_size, **options):
    options = {"kernel_initializer": "he_normal", **options}
    return tf.keras.layers.LeakyReLU(0.1)(tf.keras.layers.Conv2D(FILTERS, kernel_size, **options)(x))


def _half_for_details(shape, dtype=None):
    """He initialisation, but half of the filters start insensitive to brightness and very sensitive to details.

    Details are weak compared with brightness: without this, little is learned of softness in a few hundred steps.
    """
    kernel = tf.keras.initializers.HeNormal()(shape, dtype)
    plain, details = tf.split(kernel, 2, axis=3)
    details -= tf.reduce_mean(details, axis=(0, 1), keepdims=True)
    return tf.concat([plain, _DETAIL * details], axis=3)


def _whole(crop_size):
    """Builds a classifier that sees the whole image, which is halved until it has two pixels along each side."""
    images = x = tf.keras.Input([crop_size, crop_size, 3], name="images")
    for halving in range(math.ceil(math.log2(crop_size)) - 1):
        filters = min(FILTERS + 16 * halving, 96)
        x = tf.keras.layers.Conv2D(filters, 3, 2, "same", use_bias=False, kernel_initializer="he_normal")(x)
        x = tf.keras.layers.LeakyReLU(0.1)(tf.keras.layers.BatchNormalization(momentum=0.9)(x))
    pooled = tf.keras.layers.GlobalAveragePooling2D(keepdims=True)(x)
    evidence = tf.keras.layers.Conv2D(1, 1, name="evidence")(pooled)[..., 0]
    return tf.keras.Model(images, evidence, name="whole")
