"""Protocols for fine-tuning: the paper's for STL-10, and ours for data sets with few labels."""

import dataclasses
from typing import Any

from lci_tf.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneProtocol:
    """How a network with a new head is trained on labels: AdamW with a cosine schedule, as in pre-training.

    Attributes:
      name: the protocol's name on the command line.
      from_layer: the lowest layer that is trained, or `"head"` for the new layers only; None for all layers.
      crop_size: side of the crops in training and testing, in pixels; None: as in pre-training.
      resize: short side of images before cropping, in pixels, see `images.preprocess`; None: as in pre-training.
      epochs: passes over the labelled images, unless validation stops the training earlier.
      batch_size: images per step, over all replicas.
      learning_rate: initial learning rate of the new layers; of all layers if nothing was pre-trained.
      pretrained_learning_rate: initial learning rate of the pre-trained layers.
      weight_decay: share of each weight lost per step, at the start.
      validation: share of the training images, from 0 to 1, that is held out to choose the best weights by. With 0,
        the last weights are used.
      patience: epochs without improvement on the held-out images after which the training stops.
      strong_augmentation: vary scale and colours, in addition to random crops and mirroring.
      multi_crop: classify ten crops of each test image, not only its centre; so does the exported model.
      where: what the protocol is for, or its place in the paper.
      differs: what is not the paper's.
      changed: names of the fields in which this differs from the protocol of that name.
    """

    name: str
    from_layer: str | None = None
    crop_size: int | None = None
    resize: int | None = None
    epochs: int
    batch_size: int
    learning_rate: float
    pretrained_learning_rate: float
    weight_decay: float = 1e-4
    validation: float
    patience: int
    strong_augmentation: bool
    multi_crop: bool
    where: str
    differs: str
    changed: tuple[str, ...] = ()


PROTOCOLS = {
    "few_labels": FinetuneProtocol(
        name="few_labels",
        epochs=100,
        batch_size=32,
        learning_rate=3e-4,
        pretrained_learning_rate=1e-4,
        validation=0.2,
        patience=30,
        strong_augmentation=True,
        multi_crop=False,
        where="for labels of your own",
        differs="all of it, for the paper has no such experiment",
    ),
    "stl10": FinetuneProtocol(
        name="stl10",
        epochs=300,
        batch_size=64,
        learning_rate=3e-4,
        pretrained_learning_rate=3e-4,
        validation=0.0,
        patience=300,
        strong_augmentation=True,
        multi_crop=True,
        where="Supplement, ResNet Experiments on STL-10",
        differs='how scale and colours vary, where the paper says "data augmentation"',
    ),
}


def name_for(dataset: str, few_labels: bool) -> str:
    """The name of a data set's own protocol if it has one and all of its labels are used, else `"few_labels"`."""
    return dataset if dataset in PROTOCOLS and not few_labels else "few_labels"


def resolve(
    name: str, given: dict[str, Any], crop_size: int | None = None, resize: int | None = None
) -> FinetuneProtocol:
    """A protocol, overridden by the values `given`; its `changed` lists what was overridden.

    Args:
      given: values by field name. If `crop_size` is given and `resize` is not, then `resize` keeps its proportion to
        the crop.
      crop_size, resize: those of the network's pre-training, in pixels.
    """
    preset = PROTOCOLS[name]
    crop = crop_size or 64
    values = {"crop_size": crop, "resize": resize or round(1.5 * crop), **given}
    if "crop_size" in given and "resize" not in given:
        values["resize"] = round(values["resize"] * values["crop_size"] / crop)
    if values["resize"] < values["crop_size"]:
        raise InputError(f"--resize={values['resize']}: smaller than the crop of {values['crop_size']} pixels")
    changed = tuple(field for field, value in given.items() if getattr(preset, field) != value)
    return dataclasses.replace(preset, **values, changed=changed)


def describe(protocol: FinetuneProtocol, pretrained: bool = True) -> str:
    """The protocol in text, one line per setting."""
    rates = f"{protocol.learning_rate:g}"
    if pretrained and protocol.from_layer != "head":
        rates += f" for new layers, {protocol.pretrained_learning_rate:g} for pre-trained ones"
    stop = f", or {protocol.patience} without improvement" if protocol.validation else ""
    held_out = f"{100 * protocol.validation:g} % of the training images" if protocol.validation else "none"
    lines = {
        "layers": f"from {protocol.from_layer} up" if protocol.from_layer else "all",
        "crop_size": f"{protocol.crop_size}, of images of {protocol.resize}",
        "epochs": f"{protocol.epochs}{stop}, in batches of {protocol.batch_size}",
        "rates": rates,
        "validation": held_out,
        "augmentation": "crops, mirroring, scale, colours" if protocol.strong_augmentation else "crops, mirroring",
        "tested by": "ten crops" if protocol.multi_crop else "the centre crop",
        "purpose": protocol.where,
        "not the paper's": protocol.differs,
    }
    if protocol.changed:
        lines["changed by flags"] = ", ".join(protocol.changed)
    return "\n".join(f"    {name:28s} {value}" for name, value in lines.items())
