"""Fast R-CNN (Girshick, 2015): C's convolutions on the whole image, and then a class and a box for each region."""

import dataclasses
import math

import tensorflow as tf

from lci_tf.evaluation.voc.trunk import Trunk

_SAMPLES = 2  # samples of a pooled cell along each side


class Detector(tf.Module):
    """The network: a trunk, and two layers on top of it, for classes and for boxes.

    Args:
      trunk: its convolutions must take images of any size.
      classes: number of classes, without background.
      class_deviation, box_deviation: standard deviations of the new layers' weights.
      dropout: share of fc6 and fc7 that is dropped in training.
      seed: random seed for the new weights and for dropout.
    """

    def __init__(
        self,
        trunk: Trunk,
        classes: int,
        class_deviation: float = 0.01,
        box_deviation: float = 0.001,
        dropout: float = 0.0,
        seed: int = 0,
    ):
        super().__init__()
        self.trunk, self.classes, self._dropout, self._seed = trunk, classes, dropout, seed
        self._grid = MapGrid.of(trunk.convolutions)
        self.network, self.fc6, self.fc7 = trunk.convolutions, trunk.fc6, trunk.fc7  # so that checkpoints have them
        self.scores = _dense("class_scores", 1 + classes, class_deviation, seed)
        self.moves = _dense("boxes", 4 * classes, box_deviation, seed + 1)
        for layer in (self.scores, self.moves):
            layer.build([None, trunk.units])

    def trained(self, fixed: tuple[str, ...] = ()) -> list[tf.Variable]:
        """The variables of all layers, except those whose names begin with one of these."""
        names = [name for name in self.trunk.layers if not name.startswith(fixed)] if fixed else list(self.trunk.layers)
        return [*self.trunk.variables(names), *self.scores.trainable_variables, *self.moves.trainable_variables]

    def maps(self, images: tf.Tensor) -> tf.Tensor:
        """From images [n, height, width, 3] in [-1, 1] to conv5, whose pixel k is centred on their pixel k · stride."""
        return self.trunk.conv5(self._grid.pad(images))

    def regions(self, maps: tf.Tensor, boxes: tf.Tensor, step: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """Classifies regions.

        Args:
          maps: conv5 of n images, see `maps`.
          boxes: float32 [n, m, 4], the regions, in pixels of the images.
          step: step of the training, for dropout; None in testing.

        Returns:
          Logits [n · m, 1 + classes], with background first; and for each class how to move the box,
          [n · m, classes, 4], see `boxes.targets`.
        """
        pooled = pool(maps, boxes, self._grid.stride, self.trunk.grid)
        seed = None
        if step is not None:
            seed = tf.random.experimental.stateless_fold_in(tf.constant([self._seed, 0], tf.int64), step)
        vectors = self.trunk.vectors(pooled, self._dropout, seed)
        return self.scores(vectors), tf.reshape(self.moves(vectors), [-1, self.classes, 4])


def pool(maps: tf.Tensor, boxes: tf.Tensor, stride: int, grid: int) -> tf.Tensor:
    """RoI pooling: divides each box into `grid`×`grid` cells, and takes the maximum of each.

    It is the maximum of `_SAMPLES`² interpolated points in the cell instead of the map's pixels, so that cells need not
    be rounded to pixels.

    Args:
      maps: [n, height, width, channels], whose pixel k is centred on the image's pixel k · stride.
      boxes: float32 [n, m, 4] in pixels of the images.

    Returns:
      [n · m, grid, grid, channels].
    """
    count = tf.shape(boxes)[1]
    boxes = tf.reshape(boxes, [-1, 4])
    # From edge to edge in pixels of the map, and then from the first sample to the last.
    low, high = (boxes[:, :2] - 0.5) / stride, (boxes[:, 2:] + 0.5) / stride
    half = (high - low) / (2 * _SAMPLES * grid)
    _, rows, columns, _ = tf.unstack(tf.shape(maps))
    last = tf.cast(tf.stack([columns, rows]) - 1, tf.float32)
    # After a division and a multiplication, the place of the last pixel must not lie beyond it.
    low, high = (tf.clip_by_value(place / tf.maximum(last, 1.0), 0.0, 1 - 1e-6) for place in (low + half, high - half))
    corners = tf.gather(tf.concat([low, high], axis=1), [1, 0, 3, 2], axis=1)
    image = tf.repeat(tf.range(tf.shape(maps)[0]), count)
    sampled = tf.image.crop_and_resize(maps, corners, image, [_SAMPLES * grid, _SAMPLES * grid])
    return tf.nn.max_pool2d(sampled, _SAMPLES, _SAMPLES, "VALID")


def losses(
    logits: tf.Tensor, moves: tf.Tensor, labels: tf.Tensor, targets: tf.Tensor, weights: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Cross-entropy of the classes, and smooth L1 of the boxes of objects; means over all regions with a weight.

    Args:
      logits, moves: see `Detector.regions`.
      labels, targets, weights: see `sampling.Regions`; [n, m] and [n, m, 4].
    """
    labels, targets, weights = tf.reshape(labels, [-1]), tf.reshape(targets, [-1, 4]), tf.reshape(weights, [-1])
    count = tf.maximum(tf.reduce_sum(weights), 1.0)
    entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    of_class = tf.gather(moves, tf.maximum(labels - 1, 0), batch_dims=1)
    distance = tf.abs(of_class - targets)
    smooth = tf.where(distance < 1, 0.5 * distance**2, distance - 0.5)
    is_object = weights * tf.cast(labels > 0, tf.float32)
    found = {
        "loss_classes": tf.reduce_sum(weights * entropy) / count,
        "loss_boxes": tf.reduce_sum(is_object[:, tf.newaxis] * smooth) / count,
    }
    return {"loss": found["loss_classes"] + found["loss_boxes"], **found}


@dataclasses.dataclass(frozen=True)
class MapGrid:
    """Maps the pixels of a map to those of the image.

    Attributes:
      stride: pixels of the image per pixel of the map.
      first: pixel of the image on which the first pixel of the map is centred.
      spare: by how many pixels an image is larger than `stride` times its map.
    """

    stride: int
    first: int
    spare: int

    @classmethod
    def of(cls, network: tf.keras.Model) -> "MapGrid":
        """From kernels, strides and paddings of a chain of layers; for a network with branches, from its map sizes."""
        layers = [layer for layer in network.layers if _window(layer)]
        if any(isinstance(layer, tf.keras.layers.Add | tf.keras.layers.Concatenate) for layer in network.layers):
            small, large = (_side(network, size) for size in (256, 512))
            stride = 256 // max(large - small, 1)
            return cls(stride, stride // 2, 0)  # as if each pixel were centred on its own square
        stride, first, spare = 1, 0.0, 0
        for size, step, padding in map(_window, layers):
            # "same" pads half of what is missing at the front, rounded down; images here are multiples of the stride.
            filled = max(size - step, 0) if padding == "same" else 0
            first += stride * ((size - 1) / 2 - filled // 2)
            spare += stride * (size - step) if padding == "valid" else 0
            stride *= step
        return cls(stride, math.floor(first), spare)

    def pad(self, images: tf.Tensor) -> tf.Tensor:
        """Pads images with grey, so that map pixel k is centred on pixel k · stride, and covers the last pixels."""
        sizes = tf.shape(images)[1:3]
        cells = (sizes - 1 + self.stride - 1) // self.stride + 1
        behind = cells * self.stride + self.spare - self.first - sizes
        paddings = tf.stack([tf.fill([2], self.first), tf.maximum(behind, 0)], axis=1)
        return tf.pad(images, tf.pad(paddings, [[1, 1], [0, 0]]))


def _window(layer):
    """(side, stride, padding) of a convolution or pooling layer; None for others."""
    size = getattr(layer, "kernel_size", None) or getattr(layer, "pool_size", None)
    return (size[0], layer.strides[0], layer.padding) if size else None


def _side(network, size):
    shapes = network.compute_output_shape([1, size, size, 3])
    return list(shapes.values())[-1][1]


def _dense(name, units, deviation, seed):
    initializer = tf.keras.initializers.RandomNormal(stddev=deviation, seed=seed)
    return tf.keras.layers.Dense(units, kernel_initializer=initializer, dtype="float32", name=name)
