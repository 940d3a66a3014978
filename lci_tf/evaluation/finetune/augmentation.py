"""Varies scale and colours of batches of training images, besides random crops and mirroring, in the compiled step.

The paper only says that it fine-tunes with "data augmentation". The kinds and their modest amounts are ours.
"""

import math

import tensorflow as tf

DRAWS = 7  # uniform draws per image
_SCALE = 1.25  # largest factor by which objects become larger or smaller
_BRIGHTNESS, _CONTRAST, _SATURATION = 0.2, 0.3, 0.4
_HUE = 0.05  # in full turns


def loaded_size(crop_size: int, resize: float) -> int:
    """The side of the crops to load, large enough to zoom out."""
    return max(crop_size, min(round(_SCALE * crop_size), int(resize)))


def augment(images: tf.Tensor, draws: tf.Tensor, crop_size: int) -> tf.Tensor:
    """Augments images [n, s, s, 3] in [-1, 1], s at least `crop_size`, and cuts them to [n, crop_size, crop_size, 3].

    Args:
      images: the images.
      draws: float32 [n, DRAWS] in [0, 1); ½ everywhere leaves an image unchanged.
      crop_size: side of the results, in pixels.
    """
    return vary_colours(vary_scale(images, draws[:, :3], crop_size), draws[:, 3:])


def vary_scale(images: tf.Tensor, draws: tf.Tensor, crop_size: int) -> tf.Tensor:
    """Cuts squares of random size and position, and resizes them to `crop_size`. Draws: [n, 3], for these."""
    size = images.shape[1]
    side = tf.minimum(crop_size * _SCALE ** (1 - 2 * draws[:, :1]), size)
    first = draws[:, 1:] * (size - side)
    # `crop_and_resize` counts from the centre of the first pixel, 0, to that of the last, 1.
    boxes = tf.concat([first, first + side - 1], axis=1) / (size - 1)
    return tf.image.crop_and_resize(images, boxes, tf.range(tf.shape(images)[0]), [crop_size, crop_size])


def vary_colours(images: tf.Tensor, draws: tf.Tensor) -> tf.Tensor:
    """Varies brightness, contrast, saturation and hue, with one of the draws [n, 4] for each."""
    brightness, contrast, saturation, turn = tf.unstack((2 * draws - 1)[:, tf.newaxis, tf.newaxis], axis=-1)
    mean = tf.reduce_mean(images, axis=[1, 2], keepdims=True)
    images = mean + (1 + _CONTRAST * contrast[..., tf.newaxis]) * (images - mean)
    luma, i, q = tf.unstack(tf.image.rgb_to_yiq(images), axis=-1)
    # In the plane of I and Q, saturation is the distance from the origin and hue is the angle.
    saturation, angle = 1 + _SATURATION * saturation, 2 * math.pi * _HUE * turn
    cosine, sine = saturation * tf.cos(angle), saturation * tf.sin(angle)
    turned = tf.stack([luma + _BRIGHTNESS * brightness, cosine * i - sine * q, sine * i + cosine * q], axis=-1)
    return tf.clip_by_value(tf.image.yiq_to_rgb(turned), -1.0, 1.0)
