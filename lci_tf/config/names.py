"""The names on the command line of transformations, backbones and data sets, and the code behind each.

To add one, write its module and add a line here. Flags and settings can check a name without importing TensorFlow;
the code behind it is imported by `load`, when it is needed.
"""

import importlib
from collections.abc import Callable
from typing import Any

from lci_tf.errors import InputError

# --transforms: a `lci_tf.transforms.Transformation`, or one that the learner treats specially.
TRANSFORMS = {
    "rot": "lci_tf.transforms.rotation:Rotations",
    "warp": "lci_tf.transforms.warp:Warp",
    "lci": "lci_tf.transforms.lci:LimitedContextInpainting",
}
TILES = "tiles"  # not a class for C: trains the inpainter of seams for a test

# --backbone: a `lci_tf.models.backbone.Backbone`.
BACKBONES = {
    "alexnet_small": "lci_tf.models.alexnet:SMALL",
    "alexnet": "lci_tf.models.alexnet:WHOLE",
    "resnet34": "lci_tf.models.resnet:RESNET34",
}

# --dataset: a `lci_tf.data.source.FindSplits`. Any other set of tensorflow-datasets is tfds:NAME.
DATASETS = {
    "synthetic": "lci_tf.data.sets.synthetic:find",
    "folder": "lci_tf.data.sets.folder:find",
    "csv": "lci_tf.data.sets.csv_labels:find",
    "tfrecord": "lci_tf.data.sets.tfrecord:find",
    "stl10": "lci_tf.data.sets.stl10:find",
    "celeb_a": "lci_tf.data.sets.celeba:find",
    "imagenet2012": "lci_tf.data.sets.tfds_sets:find_imagenet2012",
    "places365_small": "lci_tf.data.sets.tfds_sets:find_places365_small",
    "voc/2007": "lci_tf.data.sets.voc:find_2007",
    "voc/2012": "lci_tf.data.sets.voc:find_2012",
}
TFDS = "tfds:"
IN_BUCKETS = ("folder", "tfrecord")


def load(path: str) -> Any:
    """Imports what a path of the form `module:name` refers to."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def offer(room: str, modules: dict[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a room, which import what it offers when it is first asked for.

    Args:
      room: the package's name.
      modules: for every name that the room offers, the module within that has it.
    """

    def getattr_of_room(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        return load(f"{room}.{modules[name]}:{name}")

    def dir_of_room() -> list[str]:
        return sorted({*vars(importlib.import_module(room)), *modules})

    return getattr_of_room, dir_of_room


def check_dataset(name: str) -> None:
    """Raises `InputError` if there is no such data set. Names after tfds: are left to tensorflow-datasets to check."""
    if name not in DATASETS and not name.startswith(TFDS):
        raise InputError(f"--dataset={name}: unknown; expected one of {', '.join(DATASETS)}, or tfds:NAME")
