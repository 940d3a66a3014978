"""Accuracies of nearest neighbours: from a network and labelled images to a number for each layer and each k."""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from lci_tf.data import pipeline
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import Source
from lci_tf.evaluation.crop_features import CropFeatures, crop_features
from lci_tf.evaluation.neighbours import exact_search as knn
from lci_tf.evaluation.neighbours import faiss_search
from lci_tf.runs import trained

_SETTLING_BATCH = 64

Accuracies = dict[str, dict[int, float]]  # by layer and k


@dataclasses.dataclass(frozen=True)
class Network:
    """A network with the layers that are looked at, and the crops that it sees."""

    name: str
    model: trained.FeatureModel
    crops: pipeline.Crops

    def described(self) -> dict[str, Any]:
        """Which it is, in plain values."""
        return {"name": self.name, **self.model.origin, **dataclasses.asdict(self.crops)}


@dataclasses.dataclass(frozen=True)
class Protocol:
    """How neighbours are found.

    Attributes:
      views: the crops of an image whose features are joined, a name in `images.VIEWS`.
      faiss: whether faiss is to search.
      seed: of the images on which the batch normalisation of a random network settles.
      batch_size: images at a time.
      max_bad_images: see `InputReport`.
      folder: where features go meanwhile.
    """

    views: str
    faiss: bool
    seed: int
    batch_size: int
    max_bad_images: float
    folder: pathlib.Path

    def described(self) -> dict[str, Any]:
        """What results depend on, in plain values."""
        return {"crops": self.views, "features": "standardised", "similarity": "cosine",
                "search": "faiss" if self.faiss else "exact"}  # fmt: skip


def evaluate(
    network: Network, train: Source, test: Source | None, protocol: Protocol, ks: Sequence[int]
) -> tuple[Accuracies, list[int]]:
    """The share of test images whose class most of their k nearest train images have; and how many images there are.

    Args:
      test: None to leave one out: each train image is classified by all others.

    Returns:
      By layer and k; and the number of train images, then that of test images if there are any.
    """
    others, what = int(test is None), f"{train.name} {train.split}"
    knn.check_enough(max(ks), (train.count or np.inf) - others, what)
    settle(network, train, protocol)
    found = [features_of(network, source, protocol, only_labelled=True) for source in (train, test) if source]
    counts, labels = [len(f.numbers) for f in found], [f.labels for f in found]
    knn.check_enough(max(ks), counts[0] - others, what)
    accuracies = {}
    for layer in network.model.layers:
        features = [f.layers[layer] for f in found]
        accuracies[layer] = knn.accuracies(
            _neighbours(*features, k=max(ks), by_faiss=protocol.faiss), labels[0], labels[-1], ks
        )
    return accuracies, counts


def _neighbours(train_x, test_x=None, *, k, by_faiss):
    standardisation = knn.normalise(train_x)
    if test_x is not None:
        knn.normalise(test_x, standardisation)
        return (faiss_search if by_faiss else knn).nearest(train_x, test_x, k)
    return (faiss_search if by_faiss else knn).nearest_others(train_x, k)


def settle(network: Network, source: Source, protocol: Protocol) -> None:
    """Has the batch normalisation of a random network see images; others have seen theirs."""
    if "random" not in network.model.origin:
        return
    report = InputReport(source, protocol.max_bad_images)
    batches = pipeline.training_batches(source, network.crops, _SETTLING_BATCH, protocol.seed, report)
    with report.one_line_errors():
        trained.settle(network.model, (batch["image"] for batch in batches.take(trained.BATCHES_SEEN)))


def features_of(network: Network, source: Source, protocol: Protocol, only_labelled: bool = False) -> CropFeatures:
    """See `crop_features`."""
    return crop_features(
        network.model.maps,
        source,
        network.crops,
        protocol.views,
        protocol.batch_size,
        InputReport(source, protocol.max_bad_images),
        protocol.folder,
        only_labelled,
    )
