"""Image transformations as functions of batches of images and random draws; `create` finds them by name."""

import importlib
import inspect
from collections.abc import Iterable

from lci_tf.config.names import TILES, TRANSFORMS, load
from lci_tf.config.settings import Settings
from lci_tf.errors import InputError
from lci_tf.transforms.lci import LimitedContextInpainting
from lci_tf.transforms.tiles import Tiles
from lci_tf.transforms.transformation import Movement, Transformation

AnyTransformation = Transformation | LimitedContextInpainting | Tiles

__all__ = [
    "AnyTransformation",
    "LimitedContextInpainting",
    "Movement",
    "Tiles",
    "Transformation",
    "create",
    "labels_of",
]


def create(names: Iterable[str], settings: Settings, size: int | None = None) -> list[AnyTransformation]:
    """Creates the transformations with these names, in this order.

    Args:
      names: names of built-in transformations, or MODULE:CLASS for a `Transformation` of the user.
      settings: the settings of a training, which configure the transformations.
      size: side of the images to transform, in pixels; by default crop and margin together.
    """
    size = settings.crop_size + settings.margin if size is None else size
    return [_find(name).from_settings(settings, size) for name in names]


def labels_of(transforms: Iterable[AnyTransformation]) -> tuple[str, ...]:
    """The names of all classes in the order of their numbers; identity is 0."""
    labels = ("identity", *(label for transform in transforms for label in transform.labels))
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(f"--transforms: there would be two classes named {label}")
    return labels


def _find(name):
    if name == TILES:
        return Tiles
    return load(TRANSFORMS[name]) if name in TRANSFORMS else _check(_import(name, name), name)


def _import(path, name):
    """Imports the class that MODULE:CLASS names."""
    module_name, _, class_name = path.partition(":")
    if not (module_name and class_name):
        raise InputError(f"--transforms={name}: unknown; expected some of {','.join(TRANSFORMS)}, or MODULE:CLASS")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module exists, but something that it imports does not
        raise InputError(
            f"--transforms={name}: no module {error.name} in the current folder or among the installed ones"
        ) from None
    found = getattr(module, class_name, None)
    if found is None:
        raise InputError(f"--transforms={name}: module {module_name} has no {class_name}")
    return found


def _check(found, name):
    """Returns a user's class, or raises `InputError` if it cannot be used."""
    flag = f"--transforms={name}"
    if not (inspect.isclass(found) and issubclass(found, Transformation)):
        raise InputError(f"{flag}: is not a subclass of lci_tf.transforms.Transformation")
    if inspect.isabstract(found):
        raise InputError(f"{flag}: has no __call__")
    if not isinstance(getattr(found, "labels", None), tuple):
        raise InputError(f"{flag}: has no labels, a tuple of the names of its classes")
    if not isinstance(found.draws, (tuple, property)):
        raise InputError(f"{flag}: its draws are {found.draws!r}; expected a tuple, such as (2,)")
    if found.from_settings.__func__ is Transformation.from_settings.__func__:  # type: ignore[attr-defined]
        try:
            inspect.signature(found).bind()
        except TypeError as error:
            raise InputError(f"{flag}: needs arguments ({error}), but has no from_settings") from None
    return found
