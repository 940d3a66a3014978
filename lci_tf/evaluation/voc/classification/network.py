"""The classifier that is fine-tuned, saved and served: the trunk and fc8."""

import tensorflow as tf

from lci_tf.config.voc_protocols import Classification
from lci_tf.evaluation.voc.trunk import Trunk


class Classifier:
    """A network for several labels per image.

    Attributes:
      trunk: the layers below fc8.
      fc8: a dense layer without activation.
      model: the Keras model that is saved, with the same layers: images [n, size, size, 3] in [-1, 1] to a dict of
        `"logits"` and `"probabilities"`, float32 [n, classes]; the probabilities are independent.
    """

    def __init__(self, trunk: Trunk, classes: int, protocol: Classification, seed: int = 0):
        self.trunk = trunk
        initializer = tf.keras.initializers.RandomNormal(stddev=protocol.new_deviation, seed=seed)
        self.fc8 = tf.keras.layers.Dense(
            classes,
            kernel_initializer=initializer,
            bias_initializer=tf.keras.initializers.Constant(protocol.new_bias),
            name="fc8",
        )
        self.model = self._as_keras(protocol.crop_size)

    def logits(self, images: tf.Tensor, dropout: float = 0.0, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Images to logits [n, classes]; see `Trunk.vectors`."""
        return self.fc8(self.trunk.whole(images, dropout, seed))

    def variables(self, layers: str) -> list[tf.Variable]:
        """The variables to train; `layers` is one of `voc_protocols.LAYERS`."""
        names = {"all": None, "fc6-8": ("fc6", "fc7"), "fc8": ()}[layers]
        return [*self.trunk.variables(names), *self.fc8.trainable_variables]

    def _as_keras(self, size):
        images = tf.keras.Input([size, size, 3], name="images")
        trunk, x = self.trunk, self.trunk.convolutions(images)[self.trunk.last]
        if trunk.pool5 and trunk.fc6 and trunk.fc7:
            x = tf.keras.layers.Flatten(name="flatten")(trunk.pool5(x))
            x = trunk.fc7(trunk.fc6(x))
        else:
            x = tf.keras.layers.GlobalAveragePooling2D(name="pool5")(x)
        logits = self.fc8(x)
        probabilities = tf.keras.layers.Activation("sigmoid", name="probabilities")(logits)
        return tf.keras.Model(images, {"logits": logits, "probabilities": probabilities}, name="voc_classifier")
