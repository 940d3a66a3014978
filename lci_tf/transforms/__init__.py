"""Image transformations, batched, as functions of images and random draws. Here they are found by name."""

import importlib
import inspect
from collections.abc import Iterable

from lci_tf.errors import InputError
from lci_tf.presets import TRANSFORMS, Settings
from lci_tf.transforms.lci import LimitedContextInpainting
from lci_tf.transforms.rotation import Rotations
from lci_tf.transforms.tiles import Tiles
from lci_tf.transforms.transformation import Transformation
from lci_tf.transforms.warp import Warp

# By name in `presets.TRANSFORMS`, or `presets.TILES`; each takes the settings and the side of the images in pixels.
BUILDERS = {
    "rot": lambda settings, size: Rotations(),
    "warp": lambda settings, size: Warp(
        settings.warp_grid, settings.warp_strength, size, random_points=settings.random_warp_points
    ),
    "lci": lambda settings, size: LimitedContextInpainting(settings.patch_size, settings.border, settings.noise_scale),
    "tiles": lambda settings, size: Tiles(size, settings.tiles, settings.seam, settings.noise_scale),
}


def create(
    names: Iterable[str], settings: Settings, size: int | None = None
) -> list[Transformation | LimitedContextInpainting | Tiles]:
    """The transformations of these names, in this order.

    Args:
      names: of built-in ones, or MODULE:CLASS for a `Transformation` of the user's.
      settings: of the built-in ones.
      size: side of the images that are transformed; by default that of the crop and its margin.
    """
    size = settings.crop_size + settings.margin if size is None else size
    return [BUILDERS[name](settings, size) if name in BUILDERS else _import(name)() for name in names]


def labels_of(transforms: Iterable[Transformation | LimitedContextInpainting | Tiles]) -> tuple[str, ...]:
    """The names of all classes, by their numbers: identity is 0."""
    labels = ("identity", *(label for transform in transforms for label in transform.labels))
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(f"--transforms: there would be two classes named {label}")
    return labels


def _import(name):
    """The class that MODULE:CLASS or MODULE.CLASS names."""
    flag = f"--transforms={name}"
    module_name, _, class_name = name.rpartition(":" if ":" in name else ".")
    if not (module_name and class_name):
        raise InputError(f"{flag}: unknown; expected some of {','.join(TRANSFORMS)}, or MODULE:CLASS")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there, but what it imports is not
        raise InputError(f"{flag}: there is no module {error.name} here or among the installed ones") from None
    found = getattr(module, class_name, None)
    if found is None:
        raise InputError(f"{flag}: module {module_name} has no {class_name}")
    if not (inspect.isclass(found) and issubclass(found, Transformation)):
        raise InputError(f"{flag}: is not a subclass of lci_tf.transforms.Transformation")
    if inspect.isabstract(found):
        raise InputError(f"{flag}: has no __call__")
    if not isinstance(getattr(found, "labels", None), tuple):
        raise InputError(f"{flag}: has no labels, a tuple of the names of its classes")
    try:
        inspect.signature(found).bind()
    except TypeError as error:
        raise InputError(f"{flag}: cannot be made without arguments: {error}") from None
    return found
