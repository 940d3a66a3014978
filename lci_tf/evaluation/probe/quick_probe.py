"""Ridge and kNN accuracy for each layer within seconds, to watch features during training."""

import dataclasses
import logging
from collections.abc import Callable

import numpy as np

from lci_tf.data import share
from lci_tf.data.input_report import InputReport
from lci_tf.data.pipeline import Crops
from lci_tf.data.source import Source
from lci_tf.evaluation.neighbours.exact_search import knn_accuracy
from lci_tf.evaluation.pooled_features import Maps, pooled_features
from lci_tf.evaluation.probe.ridge import ridge_accuracy
from lci_tf.runs import provenance
from lci_tf.runs.provenance import Question

Results = dict[str, dict[str, float]]

log = logging.getLogger("lci_tf")


class QuickProbe:
    """Measures the features of a model; created once, then called repeatedly during training.

    Example:
      train, test = labelled.open_labelled("synthetic")
      quick_probe = QuickProbe(train, test, Crops(crop_size=64, resize=96))
      print(table(quick_probe.probe(features_model)))
    """

    def __init__(
        self,
        train: Source,
        test: Source,
        crops: Crops,
        grid: int = 4,
        batch_size: int = 64,
        seed: int = 0,
        limit: int = 5000,
        max_bad_images: float = 0.01,
    ):
        """Prepares a probe.

        Args:
          train, test: sources with the same labels.
          crops: size of the crops.
          grid: bins along each side to which maps are average-pooled.
          batch_size: images per batch.
          seed: random seed for the choice of images that select the regulariser.
          limit: approximate number of images to use of each source, spread evenly over it.
          max_bad_images: how many may be unreadable; see `InputReport`.
        """
        sources = [share.at_most(source, limit) for source in (train, test)]
        self._sources = [(source, InputReport(source, max_bad_images)) for source in sources]
        self.held_out = self._sources[1]
        """The test images, with their report."""
        self._crops, self._grid, self._batch_size = crops, grid, batch_size
        self._seed = seed
        self.measure = "average precision" if train.label_kind == "multi-label" else "right"
        """What is measured, for the heading of the results in percent."""

    def question(self) -> Question:
        """What its results depend on, except for the features and the version of lci_tf."""
        images = [provenance.of_images(source) for source, _ in self._sources]
        return {"data": images, "crops": dataclasses.asdict(self._crops), "grid": self._grid, "seed": self._seed}

    def probe(self, features_model: Callable[..., Maps]) -> Results:
        """Layer -> `"ridge"` and `"knn"` -> accuracy on the test images, in [0, 1].

        If images may have several labels, it is the mean average precision; labels that do not count (-1) are treated
        as absent in training, and left out in testing.

        Args:
          features_model: see `pooled_features`.
        """
        (train_features, train_y), (test_features, test_y) = (
            pooled_features(features_model, source, self._crops, self._batch_size, self._grid, report, doing)
            for (source, report), doing in zip(self._sources, ("features to train on", "features to test"), strict=True)
        )
        return {
            layer: self._accuracies(layer, train_x, train_y, test_features[layer], test_y)
            for layer, train_x in train_features.items()
        }

    def _accuracies(self, layer, train_x, train_y, test_x, test_y):
        if not (np.isfinite(train_x).all() and np.isfinite(test_x).all()):
            # Only reported: whether to stop a training that has gone wrong is not decided here.
            log.warning("%s: features are not finite, so their accuracy is not measured", layer)
            return {"ridge": float("nan"), "knn": float("nan")}
        channels = train_x.shape[-1]
        train_x, test_x = (x.reshape([len(x), -1]) for x in (train_x, test_x))
        return {
            "ridge": ridge_accuracy(train_x, train_y, test_x, test_y, self._seed, channels),
            "knn": knn_accuracy(train_x, train_y, test_x, test_y),
        }


def table(results: Results) -> str:
    """The results as a table in percent, with a column per layer and a row per method."""
    methods = list(next(iter(results.values())))
    lines = [f"{'%':6s}" + "".join(f"{layer:>8s}" for layer in results)]
    lines += [f"{method:6s}" + "".join(f"{100 * of[method]:8.1f}" for of in results.values()) for method in methods]
    return "\n".join(lines)
