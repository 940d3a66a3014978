"""Protocols for linear classifiers on frozen features: the paper's and ours, with the source of each part."""

import dataclasses
from typing import Any, Literal

from lci_tf.errors import InputError

# The authors' pooling windows on ImageNet and Places, which bring a map to about 9,000 units: side, which is also the
# stride, and padding. They are meant for crops of 227 pixels.
WINDOWS = {"conv1": (6, "SAME"), "conv2": (4, "VALID"), "conv3": (3, "SAME"), "conv4": (3, "SAME"),
           "conv5": (2, "VALID")}  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProbeProtocol:
    """How a linear classifier is trained on a feature map: batch normalisation of its channels, then a dense layer.

    Attributes:
      name: the protocol's name on the command line.
      dataset: the data set that it is for.
      layers: names of the feature maps, each with a classifier of its own; empty for all.
      crop_size: side of the random crops in training and of the centre crop in testing, in pixels; None: as in
        pre-training.
      resize: short side of images before cropping, in pixels, see `images.preprocess`; None: as in pre-training.
      epochs: passes over the labelled images.
      batch_size: images per step.
      learning_rates: pairs of a share of the training, from 0 to 1, and the rate from there on.
      pooled: whether maps are average-pooled to about 9,000 units; if not, they are used whole.
      grid: if given, maps are average-pooled to this many bins along each side instead.
      metric: what the table of results reports.
      momentum: Nesterov momentum of SGD.
      l2: weight of the sum of squared weights in the loss.
      bn_momentum: momentum of the batch normalisation's moving averages.
      where: the paper's table, and the section that gives crop and epochs.
      differs: what is not the paper's.
      changed: names of the fields in which this differs from the protocol of that name.
    """

    name: str
    dataset: str
    layers: tuple[str, ...] = ()
    crop_size: int | None
    resize: int | None
    epochs: int
    batch_size: int = 64
    learning_rates: tuple[tuple[float, float], ...]
    pooled: bool = False
    grid: int | None = None
    metric: Literal["accuracy", "average precision"] = "accuracy"
    momentum: float = 0.9
    l2: float = 2.5e-4
    bn_momentum: float = 0.975
    where: str
    differs: str = ""
    changed: tuple[str, ...] = ()


# The authors' code for STL-10; the paper gives no rates there. Pairs of share of the training and rate.
_AUTHORS_STEPS = ((0.0, 0.1), (0.08, 0.01), (0.4, 0.002), (0.7, 0.0004), (0.9, 0.00008))
# Supplement, Details of the Evaluation Protocol: 0.1, then 0.01 after 5, 0.002 after 25, 0.0004 after 45 of 65 epochs.
_PAPER_STEPS = ((0.0, 0.1), (5 / 65, 0.01), (25 / 65, 0.002), (45 / 65, 0.0004))
_HEAD = "the head, its L2 and Nesterov's momentum are the authors' code's"
_IMAGENET = f"crop and {_HEAD}; the batch is that of RotNet's public code, whose protocol this was"

PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        ProbeProtocol(
            name="stl10",
            dataset="stl10",
            crop_size=64,
            resize=96,
            epochs=700,
            learning_rates=_AUTHORS_STEPS,
            where="Table 2; Combination of Image Transformations",
            differs=f"rates, {_HEAD}; the batch is ours",
        ),
        ProbeProtocol(
            name="stl10_ablation",
            dataset="stl10",
            layers=("conv5",),
            crop_size=96,
            resize=96,
            epochs=500,
            learning_rates=_AUTHORS_STEPS,
            where="Table 1; Ablation Experiments",
            differs=f"rates, {_HEAD}; the batch is ours",
        ),
        ProbeProtocol(
            name="celeba",
            dataset="celeb_a",
            crop_size=96,
            resize=144,
            epochs=100,
            learning_rates=_AUTHORS_STEPS,
            metric="average precision",
            where="Table 3; Combination of Image Transformations",
            differs=f"rates, {_HEAD} for STL-10; batch and resize are ours",
        ),
        ProbeProtocol(
            name="imagenet",
            dataset="imagenet2012",
            crop_size=227,
            resize=256,
            epochs=65,
            batch_size=192,
            learning_rates=_PAPER_STEPS,
            pooled=True,
            where="Table 5; Supplement, Details of the Evaluation Protocol",
            differs=_IMAGENET,
        ),
        ProbeProtocol(
            name="places",
            dataset="folder",
            crop_size=227,
            resize=256,
            epochs=65,
            batch_size=192,
            learning_rates=_PAPER_STEPS,
            pooled=True,
            where="Table 6; Supplement, Details of the Evaluation Protocol",
            differs=f"{_IMAGENET}; Places is Places205 there, with which Places365 is not to be compared",
        ),
        ProbeProtocol(
            name="own",
            dataset="folder",
            crop_size=None,
            resize=None,
            epochs=30,
            learning_rates=tuple((share, rate / 10) for share, rate in _AUTHORS_STEPS),  # as it is so much shorter
            pooled=True,
            where="for your own images",
            differs="all of it is ours, but for the head, which is the authors' code's; rates are a tenth of theirs",
        ),
        ProbeProtocol(
            name="tiles",
            dataset="any",
            layers=("conv5",),
            crop_size=None,
            resize=None,
            epochs=30,
            learning_rates=_AUTHORS_STEPS,
            pooled=True,
            where="Figure 1",
            differs="all but the layer: head and rates are the authors' code's, the rest is ours",
        ),
    )
}
_OF_SGD = ("epochs", "batch_size", "learning_rates", "momentum", "l2", "bn_momentum", "differs")
_DEFAULTS = {"stl10": "stl10", "celeb_a": "celeba", "imagenet2012": "imagenet", "places365_small": "places"}


def name_for(dataset: str) -> str:
    """The name of a data set's default protocol."""
    return _DEFAULTS.get(dataset.removeprefix("tfds:"), "own")


def resolve(name: str, given: dict[str, Any], crop_size: int | None = None, resize: int | None = None) -> ProbeProtocol:
    """A protocol, overridden by the values `given`; its `changed` lists what was overridden.

    Args:
      given: values by field name; also `learning_rate`, the first of the rates, in proportion to which the others
        change. If `crop_size` is given and `resize` is not, then `resize` keeps its proportion to the crop.
      crop_size, resize: those of the network's pre-training, in pixels, for protocols that leave them open.
    """
    preset = PROTOCOLS[name]
    crop = preset.crop_size or crop_size or 64
    values = {"crop_size": crop, "resize": preset.resize or resize or round(1.5 * crop), **given}
    if "crop_size" in given and "resize" not in given:
        values["resize"] = round(values["resize"] * values["crop_size"] / crop)
    rate = values.pop("learning_rate", None)
    if rate is not None:
        factor = rate / preset.learning_rates[0][1]
        values["learning_rates"] = tuple((share, factor * each) for share, each in preset.learning_rates)
    if values["resize"] < values["crop_size"]:
        raise InputError(f"--resize={values['resize']}: smaller than the crop of {values['crop_size']} pixels")
    changed = tuple(
        field for field, value in values.items() if getattr(preset, field) not in (None, value) or field == "grid"
    )
    return dataclasses.replace(preset, **values, changed=changed)


def facts(protocol: ProbeProtocol, solver: str = "sgd") -> dict[str, Any]:
    """The protocol as plain values, to keep with the results; for ridge regression without what only SGD uses."""
    found = dataclasses.asdict(protocol)
    return found if solver == "sgd" else {name: value for name, value in found.items() if name not in _OF_SGD}


def describe(protocol: ProbeProtocol, solver: str = "sgd") -> str:
    """The protocol in text, one line per setting."""
    maps = "average-pooled to about 9,000 units" if protocol.pooled else "whole"
    if protocol.grid:
        maps = f"average-pooled to {protocol.grid}×{protocol.grid} squares"
    crop = f"{protocol.crop_size}, of images of {protocol.resize}" if protocol.crop_size else "as in pre-training"
    lines = {"layers": f"{', '.join(protocol.layers) or 'all'}, {maps}", "crop_size": crop}
    if solver == "sgd":
        rates = ", ".join(f"{rate:g} from {100 * share:.0f} %" for share, rate in protocol.learning_rates)
        lines["epochs"] = f"{protocol.epochs}, in batches of {protocol.batch_size}"
        lines["rates"] = f"{rates}; momentum {protocol.momentum:g}; L2 {protocol.l2:g}"
    lines["reports"] = f"{protocol.metric} ({protocol.where})"
    if solver == "sgd":
        lines["not the paper's"] = protocol.differs or "nothing"
    else:
        lines["not the paper's"] = "ridge regression on centre crops; its regulariser is chosen on a fifth of train"
    if protocol.changed:
        lines["changed by flags"] = ", ".join(protocol.changed)
    return "\n".join(f"    {name:28s} {value}" for name, value in lines.items())
