"""The paper's protocols for linear classifiers on frozen features, and where each part comes from."""

import dataclasses
from typing import Literal

LAYERS = ("conv1", "conv2", "conv3", "conv4", "conv5")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProbeProtocol:
    """How a linear classifier is trained on a layer.

    Attributes:
      dataset: whose labels.
      layers: which feature maps, each with a classifier of its own.
      crop_size: side of the random crops in training and of the centre crop in testing.
      epochs: passes over the labelled images.
      learning_rates: (share of the training from which on, rate).
      pooled: whether maps are average-pooled to about 9,000 units; else they are used whole.
      metric: what the table reports.
      where: the table, and the place that gives crop and epochs.
      differs: what is not the paper's.
    """

    dataset: str
    layers: tuple[str, ...] = LAYERS
    crop_size: int
    epochs: int
    learning_rates: tuple[tuple[float, float], ...]
    pooled: bool = False
    metric: Literal["accuracy", "average precision"] = "accuracy"
    momentum: float = 0.9
    where: str
    differs: str = ""


# Authors' code, for STL-10; the paper gives none there. Shares of the training.
_AUTHORS_STEPS = ((0.0, 0.1), (0.08, 0.01), (0.4, 0.002), (0.7, 0.0004), (0.9, 0.00008))
# Supplement, Details of the Evaluation Protocol: 0.1, then 0.01 after 5, 0.002 after 25, 0.0004 after 45 of 65 epochs.
_PAPER_STEPS = ((0.0, 0.1), (5 / 65, 0.01), (25 / 65, 0.002), (45 / 65, 0.0004))

PROTOCOLS = {
    "stl10": ProbeProtocol(
        dataset="stl10",
        crop_size=64,
        epochs=700,
        learning_rates=_AUTHORS_STEPS,
        where="Table 2; Combination of Image Transformations",
        differs="rates and momentum are the authors' code's",
    ),
    "stl10_ablation": ProbeProtocol(
        dataset="stl10",
        layers=("conv5",),
        crop_size=96,
        epochs=500,
        learning_rates=_AUTHORS_STEPS,
        where="Table 1; Ablation Experiments",
        differs="rates and momentum are the authors' code's",
    ),
    "celeba": ProbeProtocol(
        dataset="celeb_a",
        crop_size=96,
        epochs=100,
        learning_rates=_AUTHORS_STEPS,
        metric="average precision",
        where="Table 3; Combination of Image Transformations",
        differs="rates and momentum are the authors' code's for STL-10",
    ),
    "imagenet": ProbeProtocol(
        dataset="imagenet2012",
        crop_size=227,
        epochs=65,
        learning_rates=_PAPER_STEPS,
        pooled=True,
        where="Table 5; Supplement, Details of the Evaluation Protocol",
        differs="crop and momentum are the authors' code's",
    ),
    "places": ProbeProtocol(
        dataset="folder",
        crop_size=227,
        epochs=65,
        learning_rates=_PAPER_STEPS,
        pooled=True,
        where="Table 6; Supplement, Details of the Evaluation Protocol",
        differs="crop and momentum are the authors' code's",
    ),
}


def describe(protocol: ProbeProtocol) -> str:
    """A line per setting of the protocol."""
    maps = "average-pooled to about 9,000 units" if protocol.pooled else "whole"
    rates = ", ".join(f"{rate:g} from {100 * share:.0f} %" for share, rate in protocol.learning_rates)
    lines = {
        "layers": f"{', '.join(protocol.layers)}, {maps}",
        "crop_size": protocol.crop_size,
        "epochs": protocol.epochs,
        "rates": f"{rates}; momentum {protocol.momentum:g}",
        "reports": f"{protocol.metric} ({protocol.where})",
        "not the paper's": protocol.differs or "nothing",
    }
    return "\n".join(f"    {name:28s} {value}" for name, value in lines.items())
