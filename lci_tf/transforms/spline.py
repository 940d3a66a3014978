"""Polyharmonic splines, and warping by them: tensorflow-addons where it exists, else the same in a few lines of ours.

The only module that knows of tensorflow-addons: there is none for Python 3.12 and newer.
"""

import warnings

import tensorflow as tf

from lci_tf.transforms.lookup import bilinear_lookup

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its end-of-life notice, which our users can do nothing about
        from tensorflow_addons import image as _addons
except ImportError:
    _addons = None


def interpolate_spline(known_points: tf.Tensor, known_values: tf.Tensor, query_points: tf.Tensor) -> tf.Tensor:
    """The smoothest surface through known values (Duchon's thin plate, order 2), read off at other points.

    Args:
      known_points: [batch, n, 2].
      known_values: [batch, n, k].
      query_points: [batch, m, 2].

    Returns:
      [batch, m, k].
    """
    if _addons is not None:
        return _addons.interpolate_spline(known_points, known_values, query_points, order=2)
    return solve_thin_plate(known_points, known_values, query_points)


def sparse_image_warp(images: tf.Tensor, source_points: tf.Tensor, dest_points: tf.Tensor) -> tf.Tensor:
    """Warps images such that what is at the source points comes to the destination points; edges are clamped.

    Args:
      images: float32 [n, height, width, channels].
      source_points: float32 [n, points, 2], row and column in pixels.
      dest_points: the same.

    Returns:
      like `images`.
    """
    if _addons is not None:
        return tf.ensure_shape(_addons.sparse_image_warp(images, source_points, dest_points)[0], images.shape)
    return warp_by_thin_plate(images, source_points, dest_points)


def warp_by_thin_plate(images: tf.Tensor, source_points: tf.Tensor, dest_points: tf.Tensor) -> tf.Tensor:
    """`sparse_image_warp` without tensorflow-addons; in float64, because random points may lie close together."""
    height, width = images.shape[1:3]
    source_points, dest_points = tf.cast(source_points, tf.float64), tf.cast(dest_points, tf.float64)
    pixels = tf.meshgrid(tf.range(height, dtype=tf.float64), tf.range(width, dtype=tf.float64), indexing="ij")
    pixels = tf.reshape(tf.stack(pixels, axis=-1), [1, height * width, 2])
    pixels = tf.repeat(pixels, tf.shape(images)[0], axis=0)
    points = pixels + solve_thin_plate(dest_points, source_points - dest_points, pixels)
    return bilinear_lookup(images, tf.reshape(tf.cast(points, tf.float32), [-1, height, width, 2]))


def solve_thin_plate(known_points: tf.Tensor, known_values: tf.Tensor, query_points: tf.Tensor) -> tf.Tensor:
    """`interpolate_spline` without tensorflow-addons.

    The surface is Σ w_i φ(|x - p_i|) plus a plane, where φ(r) = r² log r; w and the plane solve one linear system, in
    which w may not pull on the plane.
    """
    plane = _with_one(known_points)
    none = tf.zeros_like(plane[:, :3])
    system = tf.concat(
        [
            tf.concat([_phi(known_points, known_points), plane], axis=2),
            tf.concat([tf.linalg.matrix_transpose(plane), none], axis=2),
        ],
        axis=1,
    )
    right = tf.concat([known_values, tf.tile(tf.zeros_like(known_values[:, :1]), [1, 3, 1])], axis=1)
    weights = tf.linalg.solve(system, right)
    count = tf.shape(known_points)[1]
    return _phi(query_points, known_points) @ weights[:, :count] + _with_one(query_points) @ weights[:, count:]


def _with_one(points):
    return tf.concat([points, tf.ones_like(points[..., :1])], axis=2)


def _phi(a, b):
    squared = tf.reduce_sum((a[:, :, tf.newaxis] - b[:, tf.newaxis]) ** 2, axis=-1)
    return 0.5 * squared * tf.math.log(tf.maximum(squared, 1e-10))
