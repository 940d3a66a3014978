"""T_4: random warping by a polyharmonic spline through shifted control points."""

import functools
from typing import Any

import numpy as np
import tensorflow as tf

from lci_tf.config.settings import Settings
from lci_tf.transforms import spline
from lci_tf.transforms.lookup import lookup_at
from lci_tf.transforms.transformation import Movement


@tf.keras.utils.register_keras_serializable(package="lci_tf")
class PolyharmonicWarp(tf.keras.layers.Layer):
    """Warps images smoothly and at random, in training only, as Keras's `Random…` layers do.

    Control points on a uniform grid, from corner pixel to corner pixel, are shifted at random; the thin plate spline
    (order 2) through the shifts gives, for every pixel, the place to look it up.

        augmented = PolyharmonicWarp(grid=4, strength=0.1)(images)  # [n, height, width, channels]

    It equals `tfa.image.sparse_image_warp(images, points + shifts, points)` and is several times faster: as the points
    are fixed, the dense flow is a constant matrix times the shifts.

    Args:
      grid: control points along each side, at least 2.
      strength: largest shift of a control point along either axis, as a share of the image's side.
    """

    def __init__(self, grid: int = 4, strength: float = 0.1, **kwargs):
        super().__init__(autocast=False, **kwargs)  # float16 is too coarse for grey levels
        if grid < 2:
            raise ValueError(f"grid={grid}: must be at least 2, for the corners")
        self.grid, self.strength = grid, strength

    def call(self, images: tf.Tensor, training: bool = True) -> tf.Tensor:
        if not training:
            return images
        largest = self.strength * np.array(images.shape[1:3], np.float32)
        draws = tf.random.uniform([tf.shape(images)[0], self.grid**2, 2], -1.0, 1.0)
        return self.warp(images, draws * largest)

    def warp(self, images: tf.Tensor, shifts: tf.Tensor) -> tf.Tensor:
        """Warps by given shifts.

        Args:
          images: [n, height, width, channels].
          shifts: float32 [n, grid², 2], for each control point (row by row), down and right in pixels: at the point,
            the warped image shows what the image has at the point plus its shift.

        Returns:
          like `images`.
        """
        height, width = images.shape[1:3]
        # Axis by axis, one product for the whole batch each, so that the results need not be split.
        of_unit_shifts = tf.constant(_flow_of_unit_shifts(self.grid, height, width))
        down, right = (tf.reshape(tf.matmul(shifts[..., i], of_unit_shifts), [-1, height, width]) for i in (0, 1))
        rows, columns = tf.range(height, dtype=tf.float32), tf.range(width, dtype=tf.float32)
        return lookup_at(images, down + rows[:, tf.newaxis], right + columns)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "grid": self.grid, "strength": self.strength}


class Warp(Movement):
    """`PolyharmonicWarp` of square images as a transformation for C to recognise.

    Args:
      grid: control points along each side.
      strength: largest shift of a control point, as a share of the image's side.
      size: side of the images, in pixels.
      random_points: the authors' variant, with the same number of control points at random instead of on a grid.
    """

    labels = ("warp",)

    def __init__(self, grid: int, strength: float, size: int, random_points: bool = False):
        self.size, self.largest, self.random_points = size, strength * size, random_points
        self.draws = (grid**2, 4 if random_points else 2)
        self._grid, self._layer = grid, PolyharmonicWarp(grid, strength)

    @classmethod
    def from_settings(cls, settings: Settings, size: int) -> "Warp":
        return cls(settings.warp_grid, settings.warp_strength, size, settings.random_warp_points)

    def __call__(self, images: tf.Tensor, draws: tf.Tensor) -> list[tf.Tensor]:
        if self.random_points:
            return super().__call__(images, draws)
        return [self._layer.warp(images, self._shifts(draws))]

    def move(self, rows: tf.Tensor, columns: tf.Tensor, draws: tf.Tensor) -> list[tuple[tf.Tensor, tf.Tensor]]:
        height, width = rows.shape[1:]
        at = [tf.reshape(axis, [-1, height * width]) for axis in (rows, columns)]
        shifts = self._shifts(draws)
        if self.random_points:  # in float64, as they may be close together
            points, shifts, *at = (tf.cast(v, tf.float64) for v in (self._random_points(draws), shifts, *at))
            weights = spline.fit(points, shifts)
        else:
            points = tf.constant(_grid_points(self._grid, self.size, self.size), tf.float32)
            weights = tf.einsum("wp,npi->nwi", _weights_of_unit_shifts(self._grid, self.size), shifts)
        flow = tf.reshape(tf.cast(spline.read_off(points, weights, *at), tf.float32), [-1, 2, height, width])
        return [(rows + flow[:, 0], columns + flow[:, 1])]

    def _shifts(self, draws):
        return (2 * draws[..., :2] - 1) * self.largest

    def _random_points(self, draws):
        return draws[..., 2:] * (self.size - 1)


@functools.cache
def _flow_of_unit_shifts(grid, height, width):
    """float32 [grid², height · width]: how much the shift of a control point contributes to the flow at a pixel."""
    with tf.init_scope():  # computed once, even if first needed while a graph is built
        points = _grid_points(grid, height, width)
        pixels = _mesh(np.arange(height), np.arange(width))
        unit_shifts = np.eye(grid**2)[np.newaxis]
        flow = spline.interpolate_spline(*map(tf.constant, (points, unit_shifts, pixels)))
        return np.ascontiguousarray(flow[0].numpy().T.astype(np.float32))


@functools.cache
def _weights_of_unit_shifts(grid, size):
    """float32 [grid² + 3, grid²]: a column for the shift of each control point; see `spline.fit`."""
    with tf.init_scope():
        points = tf.constant(_grid_points(grid, size, size))
        return spline.fit(points, tf.eye(grid**2, batch_shape=[1], dtype=tf.float64))[0].numpy().astype(np.float32)


def _grid_points(grid, height, width):
    """float64 [1, grid², 2]: control points from corner pixel to corner pixel, row by row."""
    return _mesh(np.linspace(0, height - 1, grid), np.linspace(0, width - 1, grid))


def _mesh(rows, columns):
    """float64 [1, rows · columns, 2]."""
    return np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1).reshape([1, -1, 2]).astype(np.float64)
