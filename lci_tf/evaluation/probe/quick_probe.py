"""What features are worth in seconds, to watch them while they are learned: ridge and kNN accuracy per layer."""

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

Results = dict[str, dict[str, float]]

log = logging.getLogger("lci_tf")


class QuickProbe:
    """Made once, then asked about a model again and again.

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
        """Takes sources with labels, the same in both.

        Args:
          grid: maps are average-pooled to grid × grid bins.
          seed: of the choice of images on which ridge chooses its regulariser.
          limit: about so many images of each source, spread over it.
          max_bad_images: how many may be unreadable; see `InputReport`.
        """
        sources = [share.at_most(source, limit) for source in (train, test)]
        self._sources = [(source, InputReport(source, max_bad_images)) for source in sources]
        self._crops, self._grid, self._batch_size = crops, grid, batch_size
        self._seed = seed
        self.measure = "average precision" if train.label_kind == "multi-label" else "right"
        """What is told, in percent."""

    def probe(self, features_model: Callable[..., Maps]) -> Results:
        """Layer -> `"ridge"` and `"knn"`: the share of test images that each gets right.

        Where images may have several labels, it is the mean of average precisions; a label that is not to be counted
        (-1) counts as missing in training, and not at all in testing.

        Args:
          features_model: see `pooled_features`.
        """
        (train_features, train_y), (test_features, test_y) = (
            pooled_features(features_model, source, self._crops, self._batch_size, self._grid, report)
            for source, report in self._sources
        )
        return {
            layer: self._accuracies(layer, train_x, train_y, test_features[layer], test_y)
            for layer, train_x in train_features.items()
        }

    def _accuracies(self, layer, train_x, train_y, test_x, test_y):
        if not (np.isfinite(train_x).all() and np.isfinite(test_x).all()):
            # A training that has gone wrong is told here, and ended or not by those who run it.
            log.warning("%s: features are not finite, so their accuracy is not measured", layer)
            return {"ridge": float("nan"), "knn": float("nan")}
        channels = train_x.shape[-1]
        train_x, test_x = (x.reshape([len(x), -1]) for x in (train_x, test_x))
        return {
            "ridge": ridge_accuracy(train_x, train_y, test_x, test_y, self._seed, channels),
            "knn": knn_accuracy(train_x, train_y, test_x, test_y),
        }


def table(results: Results) -> str:
    """A column per layer and a row per method, in percent."""
    methods = list(next(iter(results.values())))
    lines = [f"{'%':6s}" + "".join(f"{layer:>8s}" for layer in results)]
    lines += [f"{method:6s}" + "".join(f"{100 * of[method]:8.1f}" for of in results.values()) for method in methods]
    return "\n".join(lines)
