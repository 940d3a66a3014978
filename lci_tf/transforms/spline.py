"""Polyharmonic splines, by tensorflow-addons if it is installed, else by the same in a few lines.

This is the only module that uses tensorflow-addons, which does not exist for Python 3.12 and newer.
"""

import warnings

import tensorflow as tf

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its end-of-life notice, about which users can do nothing
        from tensorflow_addons import image as _addons
except ImportError:
    _addons = None


def interpolate_spline(known_points: tf.Tensor, known_values: tf.Tensor, query_points: tf.Tensor) -> tf.Tensor:
    """Evaluates the smoothest surface through known values (Duchon's thin plate spline, order 2) at other points.

    Args:
      known_points: [batch, n, 2], where values are known.
      known_values: [batch, n, k].
      query_points: [batch, m, 2], where to evaluate the surface.

    Returns:
      [batch, m, k].
    """
    if _addons is not None:
        return _addons.interpolate_spline(known_points, known_values, query_points, order=2)
    return solve_thin_plate(known_points, known_values, query_points)


def solve_thin_plate(known_points: tf.Tensor, known_values: tf.Tensor, query_points: tf.Tensor) -> tf.Tensor:
    """`interpolate_spline` without tensorflow-addons."""
    weights = fit(known_points, known_values)
    return tf.linalg.matrix_transpose(read_off(known_points, weights, query_points[..., 0], query_points[..., 1]))


def fit(known_points: tf.Tensor, known_values: tf.Tensor) -> tf.Tensor:
    """Computes the weights of the surface through known values, [batch, n + 3, k], for `read_off`.

    The surface is Σ w_i φ(|x - p_i|) plus a plane, where φ(r) = r² log r; w and the plane solve one linear system, in
    which the w_i sum to 0, as do w_i p_i.
    """
    plane = tf.concat([known_points, tf.ones_like(known_points[..., :1])], axis=2)
    none = tf.zeros_like(plane[:, :3])
    system = tf.concat(
        [
            tf.concat([_phi(known_points, known_points[..., 0], known_points[..., 1]), plane], axis=2),
            tf.concat([tf.linalg.matrix_transpose(plane), none], axis=2),
        ],
        axis=1,
    )
    right = tf.concat([known_values, tf.tile(tf.zeros_like(known_values[:, :1]), [1, 3, 1])], axis=1)
    return tf.linalg.solve(system, right)


def read_off(known_points: tf.Tensor, weights: tf.Tensor, rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """Evaluates the surface at other points.

    Args:
      known_points: [batch, n, 2], or [1, n, 2] for all.
      weights: [batch, n + 3, k], see `fit`.
      rows, columns: [batch, m] each.

    Returns:
      [batch, k, m]: as the points are many and come last, all that is computed for them is contiguous, which is faster.
    """
    count = known_points.shape[1]
    plane = tf.stack([rows, columns, tf.ones_like(rows)], axis=1)
    weights = tf.linalg.matrix_transpose(weights)
    return weights[..., :count] @ _phi(known_points, rows, columns) + weights[..., count:] @ plane


def _phi(points, rows, columns):
    """φ of the distances from points [batch, n, 2] to those at rows and columns [batch, m]: [batch, n, m]."""
    # Rows and columns separately, as summing over an axis of length two takes longer than all the rest.
    down = tf.math.squared_difference(rows[:, tf.newaxis], points[..., :1])
    right = tf.math.squared_difference(columns[:, tf.newaxis], points[..., 1:])
    squared = down + right
    return 0.5 * squared * tf.math.log(tf.maximum(squared, 1e-10))
