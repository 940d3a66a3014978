"""Fine-tunes a classifier on images with several labels each."""

import pathlib
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from lci_tf.config.voc_protocols import Classification
from lci_tf.data import draws, pipeline
from lci_tf.data.crops import RandomViews, ScaledCrops
from lci_tf.data.extraction import with_masks
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import Source
from lci_tf.evaluation import label_losses, metrics
from lci_tf.evaluation.finetune.best_weights import BestWeights
from lci_tf.evaluation.voc import loop
from lci_tf.evaluation.voc.classification.network import Classifier
from lci_tf.imaging import images
from lci_tf.plotting import pictures
from lci_tf.runs import Run
from lci_tf.training import sgd

_VALIDATION_CROPS = 2  # random crops per image, the same in every validation


def crops_of(protocol: Classification) -> ScaledCrops:
    return ScaledCrops(protocol.crop_size, scales=protocol.scales, short_side=protocol.short_side)


class Scores(NamedTuple):
    """The scores of all readable images.

    Attributes:
      logits: float32 [n, crops, classes], for random crops.
      labels: int8 [n, classes].
      numbers: int64 [n], the images' numbers in the source.
    """

    logits: np.ndarray
    labels: np.ndarray
    numbers: np.ndarray


class Scorer:
    """Computes a classifier's scores for random crops of all images; can be called repeatedly during training.

    Args:
      views: the crops of each image, the same in every call.
      report: collects unreadable images, which are left out.
    """

    def __init__(
        self,
        classifier: Classifier,
        source: Source,
        protocol: Classification,
        views: RandomViews,
        report: InputReport,
    ):
        at_once, size = max(1, protocol.batch_size // views.count), protocol.crop_size
        self._batches = pipeline.evaluation_batches(source, crops_of(protocol), at_once, report, views)
        self._count, self._report = source.count, report

        @tf.function(input_signature=[self._batches.element_spec["image"]])
        def by_crop(crops):
            logits = classifier.logits(tf.reshape(crops, [-1, size, size, 3]))
            return tf.reshape(logits, [-1, views.count, logits.shape[-1]])

        self._by_crop = by_crop

    def __call__(self, doing: str = "testing") -> Scores:
        parts = []
        for batch, mask in with_masks(self._batches, self._count, doing, self._report, delay=1):
            found = (self._by_crop(batch["image"]), batch["label"], batch["index"])
            parts.append([values.numpy()[mask] for values in found])
        return Scores(*(np.concatenate(part) for part in zip(*parts, strict=True)))


class Training:
    """Trains a classifier.

    Args:
      classifier: its variables are changed.
      train: images with several labels each.
      validation: images by which to choose the best weights, or None to take the last ones.
      max_bad_images: how many unreadable images to tolerate; see `InputReport`.
    """

    def __init__(self, classifier: Classifier, train: Source, validation: Source | None, protocol: Classification,
                 seed: int = 0, max_bad_images: float = 0.01):  # fmt: skip
        self._classifier, self._protocol, self._seed = classifier, protocol, seed
        self._train, self._report = train, InputReport(train, max_bad_images)
        self._variables = classifier.variables(protocol.layers)
        self._optimizer = sgd.of_protocol(protocol)
        self._optimizer.build(self._variables)
        self._scorer: Scorer | None = None
        self._best: BestWeights | None = None
        if validation:
            views, report = RandomViews(_VALIDATION_CROPS, seed), InputReport(validation, max_bad_images)
            self._scorer = Scorer(classifier, validation, protocol, views, report)
            self._best = BestWeights(classifier.model)

    def run(self, run: Run, checkpoint_every: int = 1000) -> int:
        """Trains until the last iteration, or until validation stops improving, and then restores the best weights.

        Returns:
          The number of iterations.
        """
        objects = {"network": self._classifier.model, "optimizer": self._optimizer}
        if self._best:
            objects["best"] = self._best
        take_step = tf.function(self._step)
        with self._report.one_line_errors():
            taken = loop.train(
                run,
                objects,
                self.batches,
                lambda batch: take_step(batch["image"], batch["label"]),
                self._protocol.iterations,
                self._protocol.batch_size,
                checkpoint_every,
                check=self._check,
                is_enough=self._is_enough,
            )
        if self._best:
            self._best.give_to(self._classifier.model)
        return taken

    def batches(self, first_step: int = 0) -> tf.data.Dataset:
        """The training batches from this step on."""
        return pipeline.training_batches(
            self._train, crops_of(self._protocol), self._protocol.batch_size, self._seed, self._report, first_step
        )

    def save_picture(self, path: pathlib.Path) -> None:
        """Draws the first training images as the network sees them."""
        with self._report.one_line_errors():
            batch = next(iter(self.batches()))
        pictures.save(path, pictures.grid(images.unscale(batch["image"]).numpy(), columns=4))

    @property
    def best_iteration(self) -> int | None:
        """The iteration with the best weights; None without validation."""
        return int(self._best.step) if self._best else None

    def _step(self, crops, labels):
        seed = draws.key(self._seed, draws.DROPOUT, self._optimizer.iterations)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self._variables)
            logits = self._classifier.logits(crops, self._protocol.dropout, seed)
            costs, _ = label_losses.cross_entropies(logits, labels)
            # As in Caffe: the sum over the classes, and the mean over the images.
            loss = tf.reduce_sum(costs) / tf.cast(tf.shape(crops)[0], tf.float32)
        self._optimizer.apply(tape.gradient(loss, self._variables), self._variables)
        return {"loss": loss}

    def _check(self, step) -> dict[str, float] | None:
        is_due = step % self._protocol.check_every == 0 or step == self._protocol.iterations
        if not (is_due and self._best and self._scorer):
            return None
        found = self._scorer("validating")
        value = metrics.evaluate(found.logits.sum(axis=1), found.labels).value
        loss = label_losses.mean_cross_entropy(tf.sigmoid(found.logits.mean(axis=1)).numpy(), found.labels)
        self._best.consider(self._classifier.model, step, value, loss)
        return {"validation/average_precision": value, "validation/loss": loss}

    def _is_enough(self, step) -> bool:
        if not self._best:
            return False
        return step - int(self._best.step) >= self._protocol.patience * self._protocol.check_every
