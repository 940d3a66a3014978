"""Trains a detector."""

import tensorflow as tf

from lci_tf.config.voc_protocols import Detection
from lci_tf.evaluation.voc import loop
from lci_tf.evaluation.voc.detection import examples
from lci_tf.evaluation.voc.detection.detector import Detector, losses
from lci_tf.evaluation.voc.detection.examples import Images
from lci_tf.runs import Run
from lci_tf.training import sgd


class Training:
    """Trains a detector on annotated images with proposals."""

    def __init__(self, detector: Detector, of: Images, protocol: Detection, seed: int = 0):
        self._detector, self._images, self._protocol, self._seed = detector, of, protocol, seed
        self._variables = detector.trained(protocol.fixed)
        self._optimizer = sgd.of_protocol(protocol)
        self._optimizer.build(self._variables)

    def batches(self, first_step: int = 0) -> tf.data.Dataset:
        return examples.training_batches(self._images, self._protocol, self._seed, first_step)

    def run(self, run: Run, checkpoint_every: int = 1000) -> int:
        """Trains until the last iteration, from the run's last checkpoint. Returns the number of iterations."""
        with examples.one_line_errors(self._images.annotated):
            return loop.train(
                run,
                {"detector": self._detector, "optimizer": self._optimizer},
                self.batches,
                tf.function(self.step, input_signature=[self.batches().element_spec]),
                self._protocol.iterations,
                self._protocol.batch_size,
                checkpoint_every,
            )

    def step(self, batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """One update."""
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self._variables)
            maps = self._detector.maps(batch["images"])
            logits, moves = self._detector.regions(maps, batch["boxes"], batch["step"])
            found = losses(logits, moves, batch["labels"], batch["targets"], batch["weights"])
        self._optimizer.apply(tape.gradient(found["loss"], self._variables), self._variables)
        return found
