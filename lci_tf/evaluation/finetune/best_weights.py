"""Keeps the weights with the best validation, to restore them at the end of a training."""

import math

import tensorflow as tf


class BestWeights(tf.Module):
    """The weights with the best validation: the highest score, and among equals the lowest loss.

    Attributes:
      step, score, loss: step, validation score and validation loss of these weights.
    """

    def __init__(self, network: tf.keras.Model):
        super().__init__()
        with tf.device("CPU:0"):  # to spare the accelerator's memory
            self.step = tf.Variable(0, dtype=tf.int64)
            self.score = tf.Variable(-math.inf, dtype=tf.float64)
            self.loss = tf.Variable(math.inf, dtype=tf.float64)
            self._weights = [tf.Variable(tf.convert_to_tensor(weight)) for weight in network.weights]

    def consider(self, network: tf.keras.Model, step: int, score: float, loss: float) -> None:
        """Keeps the network's weights if they are the best so far. NaN, when no label counts, is the worst score."""
        score = -1.0 if math.isnan(score) else score
        if (score, -loss) > (float(self.score), -float(self.loss)):
            for variable, value in ((self.step, step), (self.score, score), (self.loss, loss)):
                variable.assign(value)
            for kept, weight in zip(self._weights, network.weights, strict=True):
                kept.assign(tf.convert_to_tensor(weight))

    def give_to(self, network: tf.keras.Model) -> None:
        """Sets the network's weights to the best ones."""
        for kept, weight in zip(self._weights, network.weights, strict=True):
            weight.assign(kept)
