"""Image transformations, batched, as functions of images and random draws. Here they are found by name."""

import importlib
import inspect
from collections.abc import Iterable

from lci_tf.config.presets import TILES, TRANSFORMS, Settings
from lci_tf.errors import InputError
from lci_tf.transforms.lci import LimitedContextInpainting
from lci_tf.transforms.tiles import Tiles
from lci_tf.transforms.transformation import Transformation


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
    return [_find(name).from_settings(settings, size) for name in names]


def labels_of(transforms: Iterable[Transformation | LimitedContextInpainting | Tiles]) -> tuple[str, ...]:
    """The names of all classes, by their numbers: identity is 0."""
    labels = ("identity", *(label for transform in transforms for label in transform.labels))
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(f"--transforms: there would be two classes named {label}")
    return labels


def _find(name):
    if name == TILES:
        return Tiles
    return _import(TRANSFORMS[name], name) if name in TRANSFORMS else _check(_import(name, name), name)


def _import(path, name):
    """The class that MODULE:CLASS names."""
    module_name, _, class_name = path.partition(":")
    if not (module_name and class_name):
        raise InputError(f"--transforms={name}: unknown; expected some of {','.join(TRANSFORMS)}, or MODULE:CLASS")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there, but what it imports is not
        raise InputError(
            f"--transforms={name}: there is no module {error.name} here or among the installed ones"
        ) from None
    found = getattr(module, class_name, None)
    if found is None:
        raise InputError(f"--transforms={name}: module {module_name} has no {class_name}")
    return found


def _check(found, name):
    """A user's class, if it can be used."""
    flag = f"--transforms={name}"
    if not (inspect.isclass(found) and issubclass(found, Transformation)):
        raise InputError(f"{flag}: is not a subclass of lci_tf.transforms.Transformation")
    if inspect.isabstract(found):
        raise InputError(f"{flag}: has no __call__")
    if not isinstance(getattr(found, "labels", None), tuple):
        raise InputError(f"{flag}: has no labels, a tuple of the names of its classes")
    if not isinstance(found.draws, (tuple, property)):
        raise InputError(f"{flag}: its draws are {found.draws!r}; expected a tuple, such as (2,)")
    if found.from_settings.__func__ is Transformation.from_settings.__func__:
        try:
            inspect.signature(found).bind()
        except TypeError as error:
            raise InputError(f"{flag}: cannot be made without arguments ({error}), and has no from_settings") from None
    return found
