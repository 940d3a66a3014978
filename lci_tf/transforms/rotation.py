"""T_1, T_2, T_3: rotations by 90°, 180° and 270°."""

import tensorflow as tf

from lci_tf.transforms.transformation import Transformation


class Rotations(Transformation):
    """Rotates counter-clockwise by 90°, 180° and 270°. Pixels are moved, not interpolated."""

    labels = ("rot90", "rot180", "rot270")
    of_identity = True

    def __call__(self, images: tf.Tensor, draws: tf.Tensor) -> list[tf.Tensor]:
        transposed = tf.transpose(images, [0, 2, 1, 3])
        return [tf.reverse(transposed, [1]), tf.reverse(images, [1, 2]), tf.reverse(transposed, [2])]
