"""`Probe`: one network, one protocol, and how to answer a question about its features."""

import dataclasses
import functools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lci_tf.config import probe_protocols
from lci_tf.config.probe_protocols import ProbeProtocol
from lci_tf.data import cache, share
from lci_tf.data.source import Source
from lci_tf.evaluation.probe import linear_probe, ridge_probe, tasks, tiles_task
from lci_tf.evaluation.probe.frozen import FrozenFeatures
from lci_tf.evaluation.probe.head_evaluation import Found
from lci_tf.evaluation.probe.tasks import Task
from lci_tf.evaluation.results import SINGLE
from lci_tf.runs import provenance
from lci_tf.runs.provenance import Question
from lci_tf.runs.trained import FeatureModel


@dataclasses.dataclass(frozen=True)
class Images:
    """The images of a probe.

    Attributes:
      train: images to train on; it knows its count.
      test: images to test on.
      population: those from which `train` was chosen.
      folds: for each of STL-10's folds, the indices of its images in `train`; None without folds.
    """

    train: Source
    test: Source
    population: Source
    folds: Sequence[np.ndarray] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Probe:
    """Linear classifiers on the layers of a frozen network.

    Attributes:
      model: the network, with the layers to probe.
      protocol: crops, and how to train by SGD.
      solver: `"sgd"` or `"ridge"`.
      mirror: with ridge, whether to train on mirrored images too.
      ten_crops: whether to test on ten crops of an image as well as on its centre.
      seed: random seed.
      in_memory: whether to decode training images once and keep them.
      checkpoint_every: steps between checkpoints.
      max_bad_images: how many may be unreadable; see `InputReport`.
    """

    model: FeatureModel
    protocol: ProbeProtocol
    solver: str
    mirror: bool
    ten_crops: bool
    seed: int
    in_memory: bool
    checkpoint_every: int
    max_bad_images: float

    def question(self, images: Images, data: Mapping[str, Any], **more: Any) -> Question:
        """Everything that the results depend on, in plain values; see `provenance`.

        Args:
          images: the images.
          data: what else says which images these are: name of the data set, how they were chosen.
          more: further entries.
        """
        return provenance.question(
            solver=self.solver,
            mirror=self.mirror,
            protocol={**probe_protocols.facts(self.protocol, self.solver), "layers": self.features.layers},
            network=provenance.of_network(self.model.origin),
            data={
                **data,
                "labels": len(images.train.label_names),
                "train": provenance.of_images(images.train),
                "test": provenance.of_images(images.test),
            },
            seed=self.seed,
            **more,
        )

    def labels(self, images: Images, folder: pathlib.Path) -> tuple[list[Found], dict[str, Any]]:
        """How well labels are predicted, for each fold, and what else to keep with the results.

        Args:
          images: the images.
          folder: for checkpoints and TensorBoard logs; with folds, each has a subfolder.
        """
        if "random" in self.model.origin:
            tasks.calibrate_batch_norm(self.model, self._labels_of(images.population, images.test))
        if self.solver == "ridge":
            task = self._labels_of(images.train, images.test)
            found, regularisers = ridge_probe.probe(self.features, task, self.seed, images.folds, self.mirror)
            return found, {"regularisers": regularisers}
        if images.folds is None:
            return [self._by_sgd(self._labels_of(self._kept(images.train), images.test), folder)], {}
        parts = [share.of_numbers(images.train, numbers) for numbers in images.folds]
        return [
            self._by_sgd(self._labels_of(self._kept(part), images.test), folder / f"fold_{number}")
            for number, part in enumerate(parts, 1)
        ], {}

    def tiles(self, images: Images, seams: tiles_task.SeamInpainter, folder: pathlib.Path) -> Found:
        """Layer -> question of `tiles_task` -> how well a classifier on this layer answers it."""
        train = self._kept(images.train)
        posed = {
            question: tiles_task.task(
                question, train, images.test, seams, self.protocol, self.seed, self.max_bad_images
            )
            for question in tiles_task.QUESTIONS
        }
        if "random" in self.model.origin:
            tasks.calibrate_batch_norm(self.model, next(iter(posed.values())))
        answers: Found = {layer: {} for layer in self.features.layers}
        for question, task in posed.items():
            if self.solver == "ridge":
                ((found,), _) = ridge_probe.probe(self.features, task, self.seed)
            else:
                found = self._by_sgd(task, folder / question.replace(" ", "_"))
            for layer, by_crops in found.items():
                answers[layer][question] = by_crops[SINGLE]
        return answers

    @functools.cached_property
    def features(self) -> FrozenFeatures:
        """Refuses, when it is first asked for, a crop that the network does not accept."""
        return FrozenFeatures(self.model, self.protocol)

    def _labels_of(self, train, test) -> Task:
        views = "ten" if self.ten_crops else "centre"
        return tasks.by_labels(train, test, self.protocol, self.seed, views, self.max_bad_images)

    def _kept(self, train):
        return cache.in_memory(train, tasks.crops_of(self.protocol).resize) if self.in_memory else train

    def _by_sgd(self, task, folder) -> Found:
        return linear_probe.probe(self.features, task, self.protocol, folder, self.seed, self.checkpoint_every)
