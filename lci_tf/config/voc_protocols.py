"""Protocols for PASCAL VOC. The paper names only frameworks, so the values are from the code that `source` names.

Each task has its protocols by name; the first one is the default.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from lci_tf.errors import InputError

TASKS = ("classification", "detection", "segmentation")
LAYERS = ("all", "fc6-8", "fc8")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Protocol:
    """The settings that all tasks share: gradient descent with momentum, whose learning rate drops at given iterations.

    Attributes:
      name: name on the command line.
      iterations: number of updates.
      batch_size: images per update.
      learning_rate: initial learning rate of weights.
      drops: iterations after which the learning rate is multiplied by `factor`; in proportion if `iterations` changes.
      bias_rate: learning rate of biases, relative to that of weights.
      weight_decay: share of each weight that is added to its gradient, as in Caffe.
      bias_decay: the same for biases, relative to `weight_decay`.
      clip: largest norm of all gradients together, which are scaled down to it; None for no limit.
      dropout: share of fc6 and fc7 that is dropped in training.
      rescale: whether to rescale the weights of AlexNet, see `evaluation.voc.rescaling`.
      source: where the values are from.
      differs: what differs from there.
      changed: names of the values that flags changed.
    """

    name: str
    iterations: int
    batch_size: int
    learning_rate: float
    drops: tuple[int, ...] = ()
    factor: float = 1.0
    momentum: float = 0.9
    bias_rate: float = 2.0
    weight_decay: float
    bias_decay: float = 1.0
    clip: float | None = None
    dropout: float = 0.5
    rescale: bool = True
    source: str
    differs: str
    changed: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Classification(Protocol):
    """Several labels per image.

    Attributes:
      crop_size: side of the crops that the network sees.
      short_side: short side to which images are resized before cropping; None keeps their size.
      scales: smallest and largest scale. A crop shows `crop_size` / scale pixels of the image, or its whole short side
        if that is less.
      crops: number of random crops of each test image, whose scores are summed.
      layers: which layers to train, one of `LAYERS`.
      start_anew: "fc8", or "fc6-8" to replace C's fc6 and fc7 by new layers even if they fit.
      new_deviation, new_bias: standard deviation of new weights, and new biases, if they are not rescaled.
      validation: share of the training images held out to choose the best weights; 0 to take the last ones.
      patience: validations without improvement after which the training stops.
      check_every: iterations between validations.
    """

    crop_size: int = 227
    short_side: int | None = None
    scales: tuple[float, float] = (0.5, 2.0)
    crops: int = 10
    layers: str = "all"
    start_anew: str = "fc8"
    new_deviation: float = 0.01
    new_bias: float = 0.1
    validation: float = 0.0
    patience: int = 5
    check_every: int = 500


_SCALES = "scales are drawn uniformly, and a crop that would be larger than the image shows its whole short side"


def _halved(iterations: int, step: int) -> dict[str, Any]:
    return {"iterations": iterations, "drops": tuple(range(step, iterations, step)), "factor": 0.5}


CLASSIFICATION = {
    "krahenbuhl": Classification(
        name="krahenbuhl",
        **_halved(80_000, 10_000),
        batch_size=16,
        learning_rate=0.001,
        weight_decay=1e-6,
        clip=10.0,
        source="github.com/philkr/voc-classification, src/train_cls.py and src/python_layers.py",
        differs=_SCALES,
    ),
    "deepcluster": Classification(
        name="deepcluster",
        **_halved(150_000, 20_000),
        batch_size=16,
        learning_rate=0.001,
        weight_decay=1e-6,
        clip=10.0,
        rescale=False,
        start_anew="fc6-8",
        source="github.com/facebookresearch/deepcluster, eval_voc_classif_all.sh, which calls the code of krahenbuhl",
        differs=_SCALES,
    ),
    "deepcluster_fc6-8": Classification(
        name="deepcluster_fc6-8",
        **_halved(150_000, 5_000),
        batch_size=16,
        learning_rate=0.003,
        weight_decay=1e-6,
        clip=10.0,
        rescale=False,
        layers="fc6-8",
        start_anew="fc6-8",
        source="the same, eval_voc_classif_fc6_8.sh",
        differs=_SCALES,
    ),
    "own_images": Classification(
        name="own_images",
        iterations=6_000,
        batch_size=16,
        learning_rate=0.001,
        drops=(3_000, 4_500),
        factor=0.1,
        weight_decay=1e-4,
        clip=10.0,
        short_side=375,
        validation=0.2,
        patience=5,
        check_every=250,
        source="krahenbuhl",
        differs="iterations, drops and weight decay; stops when validation no longer improves; images are resized to "
        "the usual size of VOC's",
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Segmentation(Protocol):
    """A class for every pixel, by FCN-32s. An update uses the mean gradient of `batch_size` images.

    Attributes:
      padding: pixels around an image, so that fc6 has positions at its borders too.
      short_side: short side to which larger images are resized; None keeps their size.
      start_anew: as in `Classification`; the layer of scores, called fc8 there, always does.
    """

    start_anew: str = "fc8"
    padding: int = 100
    short_side: int | None = None


_FCN: dict[str, Any] = {"batch_size": 20, "learning_rate": 1e-4, "weight_decay": 5e-4, "bias_decay": 0.0}
_TRAIN = "trained on VOC's train, as without the further masks of SBD"

SEGMENTATION = {
    "fcn32s": Segmentation(
        name="fcn32s",
        iterations=100_000,
        **_FCN,
        source="github.com/shelhamer/fcn.berkeleyvision.org, voc-fcn-alexnet: solver.prototxt, train.prototxt",
        differs="the loss is the mean over an image's pixels, as a comment in the solver has it and train.prototxt has "
        "not; all biases learn at twice the rate without decay, as there those of the scores; C has no local response "
        f"normalisation; weights are rescaled; {_TRAIN}",
    ),
    "colorization": Segmentation(
        name="colorization",
        iterations=150_000,
        **_FCN,
        drops=(50_000, 100_000),
        factor=0.1,
        source="github.com/richzhang/colorization, feature_learning_tests/segmentation: solver0.prototxt (rates 1e-4, "
        "1e-5, 1e-6 for 50,000 iterations each), train_val.prototxt",
        differs=f"RGB images, not their lightness and colours apart; positions measured, not resized; {_TRAIN}",
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Detection(Protocol):
    """Fast R-CNN.

    Attributes:
      short_side: short side of images in testing. All other lengths are for one of 600, and change in proportion.
      longest: largest long side, for which the short side may be reduced.
      train_sides, train_longest: the same in training, where one of the short sides is drawn for each image.
      rois: regions per update, over all its images.
      foreground: largest share of them that shows objects.
      least_foreground: smallest overlap with an object for which a region counts as showing it.
      background: overlaps between which a region counts as background; those without overlap would be too easy.
      fixed: layers that are not trained, by the beginnings of their names.
      class_deviation, box_deviation: standard deviations of the new layers' weights.
      suppressed: overlap above which a detection is dropped in favour of a more confident one of its class.
      least_score: smallest score of a detection.
      most: largest number of detections per image.
    """

    short_side: int = 600
    longest: int = 1000
    train_sides: tuple[int, ...] = (600,)
    train_longest: int = 1000
    rois: int = 128
    foreground: float = 0.25
    least_foreground: float = 0.5
    background: tuple[float, float] = (0.1, 0.5)
    fixed: tuple[str, ...] = ()
    class_deviation: float = 0.01
    box_deviation: float = 0.001
    suppressed: float = 0.3
    least_score: float = 0.05
    most: int = 100

    def scaled(self, length: float) -> float:
        """Scales a length that is given for a short side of 600."""
        return length * self.short_side / 600


_FAST_RCNN = "github.com/rbgirshick/fast-rcnn, lib/fast_rcnn/config.py, lib/fast_rcnn/test.py and models"
_DETECTION: dict[str, Any] = {
    "batch_size": 2,
    "learning_rate": 0.001,
    "factor": 0.1,
    "weight_decay": 5e-4,
    "bias_decay": 0.0,
    "differs": "boxes' targets are divided by 0.1, 0.1, 0.2, 0.2, as in py-faster-rcnn, and not by their deviations in "
    "the data; regions are pooled by interpolation, and not rounded to pixels of the map",
}

DETECTION = {
    "fast_rcnn": Detection(
        name="fast_rcnn", iterations=40_000, drops=(30_000,), fixed=("conv1",), source=_FAST_RCNN, **_DETECTION
    ),
    "self_supervised": Detection(
        name="self_supervised",
        iterations=150_000,
        drops=(50_000, 100_000),
        train_sides=(480, 576, 688, 864, 1200),
        train_longest=2000,
        source=f"{_FAST_RCNN}; scales and drops: github.com/SimuJenni/fast-rcnn, experiments/cfgs/multiscale.yml and "
        "models/CaffeNet/solver.prototxt; iterations as evaluations of self-supervised networks have them",
        **{**_DETECTION, "differs": f"{_DETECTION['differs']}; tested with a long side of at most 1,000, not 2,000"},
    ),
}

PROTOCOLS: dict[str, Mapping[str, Protocol]] = {
    "classification": CLASSIFICATION,
    "detection": DETECTION,
    "segmentation": SEGMENTATION,
}


def resolve(task: str, name: str | None, given: dict[str, Any]) -> Protocol:
    """A protocol of a task, by default its first, overridden by the values `given`; `changed` lists these.

    Args:
      given: values by field name.
    """
    known = PROTOCOLS[task]
    preset = known.get(name or next(iter(known)))
    if preset is None:
        raise InputError(f"--protocol={name}: unknown; --task={task} has {', '.join(known)}")
    fields = {field.name for field in dataclasses.fields(preset)}
    for field in given:
        if field not in fields:
            raise InputError(f"--{field}: not for --task={task}")
    values = dict(given)
    if "iterations" in given and "drops" not in given:
        share = given["iterations"] / preset.iterations
        values["drops"] = tuple(max(1, round(drop * share)) for drop in preset.drops)
    changed = tuple(field for field, value in given.items() if getattr(preset, field) != value)
    return dataclasses.replace(preset, **values, changed=changed)


def describe(protocol: Protocol) -> str:
    """The protocol in text, one line per setting."""
    hidden = {"name", "source", "differs", "changed"}
    lines = {name: _text(v) for name, v in dataclasses.asdict(protocol).items() if name not in hidden}
    lines |= {"from": protocol.source, "ours": protocol.differs}
    if protocol.changed:
        lines["changed by flags"] = ", ".join(protocol.changed)
    return "\n".join(f"    {name.replace('_', ' '):28s} {text}" for name, text in lines.items())


def _text(value) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(_text(v) for v in value) or "–"
    return f"{value:g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
