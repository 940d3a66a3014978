"""T_4: random warping by a polyharmonic spline through shifted control points."""

import functools

import numpy as np
import tensorflow as tf

from lci_tf.transforms import spline
from lci_tf.transforms.lookup import lookup_at
from lci_tf.transforms.transformation import Transformation


@tf.keras.utils.register_keras_serializable(package="lci_tf")
class PolyharmonicWarp(tf.keras.layers.Layer):
    """Warps images smoothly and at random, in training only, as Keras's `Random…` layers do.

    Control points on a uniform grid, from corner pixel to corner pixel, are shifted at random; the thin plate spline
    (order 2) through the shifts says for every pixel where to look it up.

        augmented = PolyharmonicWarp(grid=4, strength=0.1)(images)  # [n, height, width, channels]

    The same as `tfa.image.sparse_image_warp(images, points + shifts, points)`, several times faster: because the
    points are fixed, the dense flow is a constant matrix times the shifts.

    Args:
      grid: control points along each side, at least 2.
      strength: largest shift of a control point along either axis, as a share of the image's side.
    """

    def __init__(self, grid: int = 4, strength: float = 0.1, **kwargs):
        super().__init__(autocast=False, **kwargs)  # a grey level in float16 is not what it was
        if grid < 2:
            raise ValueError(f"grid={grid}: must be at least 2, the corners")
        self.grid, self.strength = grid, strength

    def call(self, images, training=True):
        if not training:
            return images
        largest = self.strength * np.array(images.shape[1:3], np.float32)
        draws = tf.random.uniform([tf.shape(images)[0], self.grid**2, 2], -1.0, 1.0)
        return self.warp(images, draws * largest)

    def warp(self, images: tf.Tensor, shifts: tf.Tensor) -> tf.Tensor:
        """Warps by given shifts.

        Args:
          images: [n, height, width, channels].
          shifts: float32 [n, grid², 2], of each control point (row by row), downwards and to the right in pixels:
            where the point is, the warped image shows what the image has at the point plus its shift.

        Returns:
          like `images`.
        """
        height, width = images.shape[1:3]
        # Axis by axis: one product each for the whole batch, and what comes out need not be taken apart.
        of_unit_shifts = tf.constant(_flow_of_unit_shifts(self.grid, height, width))
        down, right = (tf.reshape(tf.matmul(shifts[..., i], of_unit_shifts), [-1, height, width]) for i in (0, 1))
        rows, columns = tf.range(height, dtype=tf.float32), tf.range(width, dtype=tf.float32)
        return lookup_at(images, down + rows[:, tf.newaxis], right + columns)

    def get_config(self):
        return {**super().get_config(), "grid": self.grid, "strength": self.strength}


class Warp(Transformation):
    """`PolyharmonicWarp` of square images as a class.

    Args:
      grid: control points along each side.
      strength: largest shift, as a share of the image.
      size: side of the images.
      random_points: the authors' variant: as many control points anywhere in the image, instead of on a grid.
    """

    labels = ("warp",)

    def __init__(self, grid: int, strength: float, size: int, random_points: bool = False):
        self.size, self.largest, self.random_points = size, strength * size, random_points
        self.draws = (grid**2, 4 if random_points else 2)
        self._layer = PolyharmonicWarp(grid, strength)

    @classmethod
    def from_settings(cls, settings, size):
        return cls(settings.warp_grid, settings.warp_strength, size, settings.random_warp_points)

    def __call__(self, images: tf.Tensor, draws: tf.Tensor) -> list[tf.Tensor]:
        shifts = (2 * draws[..., :2] - 1) * self.largest
        if not self.random_points:
            return [self._layer.warp(images, shifts)]
        points = draws[..., 2:] * (self.size - 1)
        return [spline.sparse_image_warp(images, points + shifts, points)]


@functools.cache
def _flow_of_unit_shifts(grid, height, width):
    """float32 [grid², height · width]: what a pixel's flow takes from the shift of a control point."""
    with tf.init_scope():  # once, even if asked for while a graph is built
        points = _mesh(np.linspace(0, height - 1, grid), np.linspace(0, width - 1, grid))
        pixels = _mesh(np.arange(height), np.arange(width))
        unit_shifts = np.eye(grid**2)[np.newaxis]
        flow = spline.interpolate_spline(*map(tf.constant, (points, unit_shifts, pixels)))
        return np.ascontiguousarray(flow[0].numpy().T.astype(np.float32))


def _mesh(rows, columns):
    """float64 [1, rows · columns, 2]."""
    return np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1).reshape([1, -1, 2]).astype(np.float64)
