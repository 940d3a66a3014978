"""How a network is fine-tuned: the paper's protocol for STL-10, and ours for those who have few labels."""

import dataclasses
from typing import Any

from lci_tf.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneProtocol:
    """How a network with a new head is trained on labels: AdamW with a cosine, as in pre-training.

    Attributes:
      name: of the protocol, as on the command line.
      from_layer: the lowest layer that is trained; None for all layers.
      crop_size: side of the random crops in training and of those in testing; None: as in pre-training.
      resize: short side of the image before a crop is cut, see `images.preprocess`; None: as in pre-training.
      epochs: passes over the labelled images, if validation does not stop the training before.
      batch_size: images per step, over all replicas.
      learning_rate: of the new layers, at the start; and of all where nothing was pre-trained.
      pretrained_learning_rate: of the pre-trained layers, at the start.
      weight_decay: share of a weight lost per step, at the start.
      validation: the share of the training images that is held out to choose the best weights by. 0 is none: then the
        last weights are taken.
      patience: epochs without a better validation after which the training stops.
      strong_augmentation: scale and colours vary, beside crops and mirror.
      multi_crop: test by ten crops of an image, not only by its centre; the exported model does too.
      where: what it is for, and where the paper has it.
      differs: what is not the paper's.
      changed: which of these were not left as the protocol has them.
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
    """The protocol of a data set, if there is one and all of its labels are used."""
    return dataset if dataset in PROTOCOLS and not few_labels else "few_labels"


def resolve(
    name: str, given: dict[str, Any], crop_size: int | None = None, resize: int | None = None
) -> FinetuneProtocol:
    """A protocol with what was `given` instead; `changed` tells of it.

    Args:
      given: values by the name of the field. Where `crop_size` is given and `resize` is not, that keeps its share of
        the crop.
      crop_size, resize: of the network's pre-training.
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
    """A line per setting of the protocol."""
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
        "varied": "crops, mirror, scale, colours" if protocol.strong_augmentation else "crops, mirror",
        "tested by": "ten crops" if protocol.multi_crop else "the centre crop",
        "what for": protocol.where,
        "not the paper's": protocol.differs,
    }
    if protocol.changed:
        lines["changed by flags"] = ", ".join(protocol.changed)
    return "\n".join(f"    {name:28s} {value}" for name, value in lines.items())
