"""Cropping square patches from images and pasting them, at an integer position for each image.

Pixels are moved, not computed, so both are bit-exact. Each is the gradient of the other.
"""

import tensorflow as tf


def random_places(draws: tf.Tensor, size: int, patch_size: int) -> tf.Tensor:
    """From uniform draws [n, 2] to upper left corners, int64 [n, 2], all inside the image and equally likely."""
    # A float32 below 1 times an integer is never rounded up to that integer, so the last place is the limit.
    return tf.cast(draws * (size - patch_size + 1), tf.int64)  # int64 for GPUs, see `lookup_at`


def crop(images: tf.Tensor, places: tf.Tensor, patch_size: int) -> tf.Tensor:
    """From images [n, height, width, c] to patches [n, patch_size, patch_size, c] with upper left corners `places`."""

    @tf.custom_gradient
    def crop_images(images):
        within = tf.range(patch_size, dtype=tf.int64)
        rows, columns = (tf.cast(places[:, i : i + 1], tf.int64) + within for i in (0, 1))
        patches = _take(images, rows, columns)
        return patches, lambda gradient: paste(tf.zeros_like(images), gradient, places)

    return crop_images(images)


def paste(images: tf.Tensor, patches: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """Images [n, height, width, c] with square patches [n, p, p, c] pasted over them at `places`, int [n, 2]."""
    (height, width), patch_size = images.shape[1:3], patches.shape[1]
    rows, columns = (
        tf.range(side, dtype=tf.int64) - tf.cast(places[:, i : i + 1], tf.int64)
        for i, side in enumerate((height, width))
    )
    inside_rows, inside_columns = ((i >= 0) & (i < patch_size) for i in (rows, columns))
    inside = (inside_rows[:, :, tf.newaxis] & inside_columns[:, tf.newaxis])[..., tf.newaxis]

    @tf.custom_gradient
    def paste_patches(images, patches):
        last = patch_size - 1
        spread = _take(patches, tf.clip_by_value(rows, 0, last), tf.clip_by_value(columns, 0, last))

        def gradients(gradient):
            return tf.where(inside, tf.zeros_like(gradient), gradient), crop(gradient, places, patch_size)

        return tf.where(inside, spread, images), gradients

    return paste_patches(images, patches)


def _take(images, rows, columns):
    """The pixels of images [n, height, width, c] at rows [n, h] and columns [n, w]: [n, h, w, c]."""
    return tf.gather(tf.gather(images, rows, axis=1, batch_dims=1), columns, axis=2, batch_dims=1)
