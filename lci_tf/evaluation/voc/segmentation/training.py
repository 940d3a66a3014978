"""Trains a segmentation network. The gradients of single images, or groups of one size, are summed for each update."""

import numpy as np
import tensorflow as tf

from lci_tf.config.voc_protocols import Segmentation
from lci_tf.data import draws
from lci_tf.evaluation.voc import loop
from lci_tf.evaluation.voc.segmentation.loading import Example, Loader, of_one_size
from lci_tf.evaluation.voc.segmentation.masks import VOID
from lci_tf.evaluation.voc.segmentation.network import FCN
from lci_tf.runs import Run
from lci_tf.training import sgd

_POINTS = 100  # fewest points of a curve


def losses(scores: tf.Tensor, masks: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Each image's mean cross-entropy and accuracy over its pixels that are not void.

    Args:
      scores: float32 [n, height, width, classes].
      masks: uint8 [n, height, width].

    Returns:
      Two tensors, float32 [n]; 0 for images that are entirely void.
    """
    counts = tf.cast(masks != VOID, tf.float32)
    labels = tf.where(masks == VOID, tf.zeros([], tf.int32), tf.cast(masks, tf.int32))
    costs = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores)
    right = tf.cast(tf.argmax(scores, axis=-1, output_type=tf.int32) == labels, tf.float32)
    total = tf.maximum(tf.reduce_sum(counts, axis=[1, 2]), 1.0)
    return tuple(tf.reduce_sum(counts * values, axis=[1, 2]) / total for values in (costs, right))


class Training:
    """Trains a network.

    An update uses the mean gradient over a batch of images. Images of one size go through the network together. As
    nothing is normalised over a batch, this gives the same gradients as single images, except for dropout's draws.

    Args:
      at_once: largest number of images that go through the network together.
    """

    def __init__(self, fcn: FCN, loader: Loader, protocol: Segmentation, at_once: int, seed: int = 0):
        self._fcn, self._loader, self._protocol, self._at_once, self._seed = fcn, loader, protocol, at_once, seed
        self._optimizer = sgd.of_protocol(protocol)
        self._optimizer.build(fcn.variables)
        specs = [tf.TensorSpec([None, None, None, 3], tf.uint8), tf.TensorSpec([None, None, None], tf.uint8),
                 tf.TensorSpec([2], tf.int64)]  # fmt: skip
        self._gradients = tf.function(self._of_group, input_signature=specs)
        self._update = tf.function(lambda gradients: self._optimizer.apply(gradients, fcn.variables))

    def run(self, run: Run, checkpoint_every: int = 1000) -> None:
        """Trains until the last iteration, from the run's last checkpoint."""
        protocol = self._protocol
        loop.train(
            run,
            {"network": self._fcn.scorer, "optimizer": self._optimizer},
            lambda first_step: self._loader.training(self._seed, protocol.batch_size, first_step),
            self.take_step,
            protocol.iterations,
            protocol.batch_size,
            checkpoint_every,
            log_every=max(1, min(20, protocol.iterations // _POINTS)),
        )

    def take_step(self, examples: list[Example]) -> dict[str, tf.Tensor]:
        """One update. Returns the mean loss and pixel accuracy before it."""
        rate, (gradients, loss, accuracy) = self._optimizer.rate, self.mean_gradients(examples)
        self._update(gradients)
        return {"loss": loss, "pixel_accuracy": accuracy, "learning_rate": rate}

    def mean_gradients(self, examples: list[Example]) -> tuple[list[tf.Tensor], tf.Tensor, tf.Tensor]:
        """The means over images of the gradients, the loss and the pixel accuracy."""
        seed, sums = draws.key(self._seed, draws.DROPOUT, self._optimizer.iterations), None
        for number, group in enumerate(of_one_size(examples, self._at_once)):
            key = tf.random.experimental.stateless_fold_in(seed, tf.constant(number, tf.int64))
            images, masks = (np.stack([getattr(e, name) for e in group]) for name in ("image", "mask"))
            new = self._gradients(images, masks, key)
            sums = new if sums is None else tf.nest.map_structure(tf.add, sums, new)
        return tf.nest.map_structure(lambda total: total / len(examples), sums)

    def _of_group(self, images, masks, seed):
        variables = self._fcn.variables
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            of_images = losses(self._fcn(images, self._protocol.dropout, seed), masks)
            loss, accuracy = map(tf.reduce_sum, of_images)
        return tape.gradient(loss, variables), loss, accuracy
