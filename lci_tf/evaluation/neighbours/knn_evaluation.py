"""Measures the accuracy of nearest-neighbour classification for each layer of a network and several k."""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

from lci_tf.data import pipeline
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import Source
from lci_tf.evaluation.crop_features import CropFeatures, crop_features
from lci_tf.evaluation.neighbours import exact_search, faiss_search
from lci_tf.runs import trained

_CALIBRATION_BATCH = 64

Accuracies = dict[str, dict[int, float]]  # layer -> k -> accuracy in [0, 1]


@dataclasses.dataclass(frozen=True)
class Network:
    """A network with the layers to evaluate, and the crops that it sees."""

    name: str
    model: trained.FeatureModel
    crops: pipeline.Crops

    def described(self) -> dict[str, Any]:
        """Identifies the network, in plain values."""
        layers = list(self.model.layers)
        return {"name": self.name, **self.model.origin, **dataclasses.asdict(self.crops), "layers": layers}


@dataclasses.dataclass(frozen=True)
class KnnProtocol:
    """How neighbours are found.

    Attributes:
      views: the crops of an image whose features are concatenated, a name in `images.VIEWS`.
      faiss: whether to search with faiss.
      seed: random seed for the images that `calibrate_batch_norm` uses.
      batch_size: images per batch.
      max_bad_images: see `InputReport`.
      folder: where features are stored temporarily.
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
    network: Network, train: Source, test: Source | None, protocol: KnnProtocol, ks: Sequence[int]
) -> tuple[Accuracies, list[int]]:
    """The share of test images whose class most of their k nearest train images have, and the numbers of images.

    Args:
      network: the network to evaluate.
      train: labelled images.
      test: labelled images; None to classify each train image by all others (leave one out).
      protocol: how to find neighbours.
      ks: the values of k.

    Returns:
      Accuracies by layer and k; and the number of train images, followed by that of test images if there are any.
    """
    others, what = int(test is None), f"{train.name} {train.split}"
    if train.count is not None:
        exact_search.check_enough(max(ks), train.count - others, what)
    calibrate_batch_norm(network, train, protocol)
    found = [features_of(network, source, protocol, only_labelled=True) for source in (train, test) if source]
    counts = [len(f.numbers) for f in found]
    labels: list[Any] = [f.labels for f in found]
    exact_search.check_enough(max(ks), counts[0] - others, what)
    accuracies = {}
    for layer in network.model.layers:
        features = [f.layers[layer] for f in found]
        accuracies[layer] = exact_search.accuracies(
            _neighbours(*features, k=max(ks), by_faiss=protocol.faiss), labels[0], labels[-1], ks
        )
    return accuracies, counts


def _neighbours(train_x, test_x=None, *, k, by_faiss):
    standardisation = exact_search.normalise(train_x)
    if test_x is not None:
        exact_search.normalise(test_x, standardisation)
        return (faiss_search if by_faiss else exact_search).nearest(train_x, test_x, k)
    return (faiss_search if by_faiss else exact_search).nearest_others(train_x, k)


def calibrate_batch_norm(network: Network, source: Source, protocol: KnnProtocol) -> None:
    """Estimates the batch-norm statistics of an untrained network; does nothing for others."""
    if "random" not in network.model.origin:
        return
    report = InputReport(source, protocol.max_bad_images)
    batches = pipeline.training_batches(source, network.crops, _CALIBRATION_BATCH, protocol.seed, report)
    with report.one_line_errors():
        trained.calibrate_batch_norm(network.model, (batch["image"] for batch in batches.take(trained.BATCHES_SEEN)))


def features_of(network: Network, source: Source, protocol: KnnProtocol, only_labelled: bool = False) -> CropFeatures:
    """Computes the features that the protocol asks for; see `crop_features`."""
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
