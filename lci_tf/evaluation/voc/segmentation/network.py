"""FCN-32s: applies C's layers to the image as convolutions, and scores every class at each position."""

import tensorflow as tf

from lci_tf.errors import InputError
from lci_tf.evaluation.voc.segmentation import geometry
from lci_tf.evaluation.voc.trunk import Trunk
from lci_tf.imaging import images as imaging


class FCN:
    """A network that scores each class at each pixel.

    fc6 is applied to every window of pool5, and fc7 to every position, as convolutions are. Networks without them are
    scored on conv5. As in FCN, the weights of the scores are initially zero.

    Attributes:
      scorer: from padded images [n, height, width, 3] in [-1, 1] to scores [n, h, w, classes], without dropout.
      geometry: positions of these scores.
      variables: all variables to train.
    """

    def __init__(self, trunk: Trunk, classes: int, padding: int):
        self._padding, self._dense = padding, [layer for layer in (trunk.fc6, trunk.fc7) if layer]
        x = trunk.convolutions.output[trunk.last]
        if trunk.fc6 and trunk.pool5:
            x = Windows(trunk.grid, name="windows")(trunk.pool5(x))
        self._below = tf.keras.Model(trunk.convolutions.input, x)
        self._score = tf.keras.layers.Dense(classes, kernel_initializer="zeros", dtype="float32", name="score")
        for layer in (*self._dense, self._score):
            x = layer(x)
        self.scorer = tf.keras.Model(trunk.convolutions.input, x, name="scorer")
        self.geometry = geometry.measure(self.scorer)
        if padding < (least := self.geometry.least_padding):
            raise InputError(f"--padding={padding}: too few pixels for the scores of this network to cover the image; "
                             f"give at least {least}")  # fmt: skip
        self.variables = [*trunk.variables(), *self._score.trainable_variables]

    def __call__(self, images: tf.Tensor, dropout: float = 0.0, seed: tf.Tensor | None = None) -> tf.Tensor:
        """From images, uint8 [n, height, width, 3], to scores, float32 [n, height, width, classes].

        Args:
          dropout: share of fc6 and fc7 to drop, if there is a seed.
          seed: int64 [2]; None in testing.
        """
        x = self._below(geometry.pad(imaging.scale(images), self.geometry, self._padding), training=False)
        for number, layer in enumerate(self._dense):
            x = layer(x)
            if dropout and seed is not None:
                x = tf.nn.experimental.stateless_dropout(x, dropout, seed=seed + number)
        return geometry.upsample(self._score(x), tf.shape(images)[1:3], self.geometry, self._padding)


@tf.keras.utils.register_keras_serializable("lci_tf")  # so that saved models can be loaded
class Windows(tf.keras.layers.Layer):
    """All windows of `side` × `side` pixels of a map, flattened: [n, h, w, c] to [n, h-side+1, w-side+1, side·side·c].

    Followed by a dense layer, this is a convolution with that layer's kernel. TensorFlow's own convolution takes three
    times as long on a CPU.
    """

    def __init__(self, side: int, **kwargs):
        super().__init__(**kwargs)
        self.kernel_size, self.strides, self.padding = (side, side), (1, 1), "valid"

    def call(self, inputs):
        side, (height, width) = self.kernel_size[0], tf.unstack(tf.shape(inputs)[1:3])
        h, w = height - side + 1, width - side + 1
        return tf.concat([inputs[:, i : i + h, j : j + w] for i in range(side) for j in range(side)], axis=-1)

    def compute_output_shape(self, input_shape):
        side, (n, height, width, channels) = self.kernel_size[0], input_shape
        h, w = (length and length - side + 1 for length in (height, width))
        return tf.TensorShape([n, h, w, channels * side**2])

    def get_config(self):
        return {**super().get_config(), "side": self.kernel_size[0]}
