"""Gradient descent with momentum as Caffe has it, with which AlexNet is fine-tuned on Pascal VOC."""

from collections.abc import Sequence

import tensorflow as tf

from lci_tf.config.voc_protocols import Protocol


class CaffeSGD(tf.Module):
    """Clips all gradients together, then adds the weight decay, then moves: biases at a rate and decay of their own.

    Args:
      rate: of weights, a number or a schedule over the updates.
      momentum: v ← momentum · v − rate · gradient, and the weight becomes weight + v.
      weight_decay: so many times the weight is added to its gradient.
      bias_rate, bias_decay: of biases, times that of weights.
      clip: the largest norm of all gradients together.
    """

    def __init__(
        self,
        rate: float | tf.keras.optimizers.schedules.LearningRateSchedule,
        momentum: float,
        weight_decay: float = 0.0,
        bias_rate: float = 1.0,
        bias_decay: float = 1.0,
        clip: float | None = None,
    ):
        super().__init__()
        self._rate = rate if callable(rate) else lambda step: tf.constant(rate, tf.float32)
        self._momentum, self._decay, self._clip = momentum, weight_decay, clip
        self._bias_rate, self._bias_decay = bias_rate, bias_decay
        self.iterations = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._velocities: dict[str, tf.Variable] = {}

    @property
    def rate(self) -> float:
        """Of weights, at the next update."""
        return float(self._rate(self.iterations))

    def build(self, variables: Sequence[tf.Variable]) -> None:
        """Makes the velocities of these variables, always the same and in the same order."""
        self._velocities = {
            f"velocity_{i}": tf.Variable(tf.zeros_like(variable), trainable=False)
            for i, variable in enumerate(variables)
        }

    def apply(self, gradients: Sequence[tf.Tensor | tf.IndexedSlices], variables: Sequence[tf.Variable]) -> None:
        """One update of the variables that it was built for."""
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        if self._clip:
            gradients, _ = tf.clip_by_global_norm(gradients, self._clip)
        rate = tf.cast(self._rate(self.iterations), tf.float32)
        for velocity, gradient, variable in zip(self._velocities.values(), gradients, variables, strict=True):
            is_bias = variable.shape.rank == 1
            decay = self._decay * (self._bias_decay if is_bias else 1.0)
            gradient += decay * variable
            velocity.assign(self._momentum * velocity - rate * (self._bias_rate if is_bias else 1.0) * gradient)
            variable.assign_add(velocity)
        self.iterations.assign_add(1)


def dropping(
    first: float, drops: Sequence[int], factor: float
) -> tf.keras.optimizers.schedules.LearningRateSchedule | float:
    """A rate that is multiplied by `factor` after each of these numbers of updates."""
    if not drops:
        return first
    # The schedule's boundaries are inclusive: at update number 10,000, counted from 0, the rate has dropped.
    boundaries = [drop - 1 for drop in drops]
    values = [first * factor**i for i in range(len(drops) + 1)]
    return tf.keras.optimizers.schedules.PiecewiseConstantDecay(boundaries, values)


def of_protocol(protocol: Protocol) -> CaffeSGD:
    """As a `voc_protocols.Protocol` has it."""
    return CaffeSGD(
        dropping(protocol.learning_rate, protocol.drops, protocol.factor),
        protocol.momentum,
        protocol.weight_decay,
        protocol.bias_rate,
        protocol.bias_decay,
        protocol.clip,
    )
