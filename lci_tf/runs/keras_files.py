"""Keras models from elsewhere, which may hold programs: those that do are loaded only if the user trusts them.

A `.keras` file is loaded in Keras's safe mode, which refuses lambdas. That is not enough: its configuration may name
any function of any installed module, and its weights may be pickled. So it is read before Keras sees it, and only what
is made of Keras's own layers, and of those of this package, is passed on. `.h5` files and Keras's SavedModels have no
such mode at all.
"""

import builtins
import json
import pathlib
import zipfile
from collections.abc import Iterator
from typing import Any

import h5py
import tensorflow as tf

# Keras knows layers of ours by their names once they are imported.
import lci_tf.models.alexnet
import lci_tf.transforms.warp  # noqa: F401
from lci_tf.errors import InputError

_PACKAGES = ("keras", "tf_keras")
_OPEN = frozenset(f"{package}{part}" for package in _PACKAGES for part in (
    "", ".layers", ".initializers", ".regularizers", ".constraints", ".activations", ".mixed_precision", ".models",
    ".src.engine.functional", ".src.engine.sequential", ".src.engine.training",
))  # fmt: skip
# Programs, or a path of one.
_PROGRAMS = frozenset({"Lambda", "__lambda__", "TFSMLayer"})
_VALUES = frozenset({"__tensor__", "__numpy__", "__bytes__"})
# TensorFlow's functions between layers, which Keras writes down by name; some of the others write files.
_OPERATIONS = frozenset({"TFOpLambda", "SlicingOpLambda"})
_HARMLESS = ("math.", "nn.", "image.", "__operators__.")
_HARMLESS_ONES = frozenset({"cast", "concat", "expand_dims", "identity", "pad", "reshape", "shape", "split", "squeeze",
                            "stack", "tile", "transpose", "unstack"})  # fmt: skip


def is_keras(place: pathlib.Path) -> bool:
    """Whether it is a file, or a SavedModel of Keras's, and not a plain SavedModel."""
    return place.is_file() or (place / "keras_metadata.pb").is_file()


def load(place: pathlib.Path, trusted: bool, what: str) -> tf.keras.Model:
    """A Keras model.

    Args:
      place: of a `.keras` or `.h5` file, or of Keras's SavedModel.
      trusted: whether it may run what it likes.
      what: how the user named the file, for messages.

    Raises:
      InputError: it is not trusted, and is of a kind that may hold programs, or does hold one.
    """
    if not trusted:
        _require_harmless(place, what)
    return tf.keras.models.load_model(place, compile=False, safe_mode=not trusted)


def _require_harmless(place, what):
    if place.is_file() and not zipfile.is_zipfile(place) and not h5py.is_hdf5(place):
        return  # no model at all, which Keras reports
    if place.is_dir() or not zipfile.is_zipfile(place) or place.suffix != ".keras":
        kind = "Keras's SavedModels" if place.is_dir() else ".h5 files, and all that are not .keras,"
        raise InputError(f"{what}: {kind} may hold programs, which loading them runs; give --trust_model if you trust "
                         "whoever made it, or save it as a .keras file")  # fmt: skip
    with zipfile.ZipFile(place) as archive:
        names = archive.namelist()
        config = json.loads(archive.read("config.json")) if "config.json" in names else {}
    program = next(_programs({**config, "compile_config": None}), None)
    if any(name.endswith(".npz") for name in names):
        program = "pickled weights"
    if program:
        raise InputError(f"{what}: holds {program}, by which it may run any program; give --trust_model if you trust "
                         "whoever made it")  # fmt: skip


def _programs(value: Any) -> Iterator[str]:
    """What in a configuration could be one."""
    if isinstance(value, dict):
        if "class_name" in value and not _is_harmless(value):
            yield f"{value.get('module') or ''} {value['class_name']} {value.get('registered_name') or ''}".strip()
        for inner in value.values():
            yield from _programs(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _programs(inner)


def _is_harmless(config):
    name, module, registered = config["class_name"], config.get("module"), config.get("registered_name")
    if name in _PROGRAMS:
        return False
    if name in _VALUES or _is_ours(registered):
        return True
    if name in _OPERATIONS:
        function = str(config.get("config", {}).get("function"))
        return function.startswith(_HARMLESS) or function in _HARMLESS_ONES
    if name == "function" and module == "builtins":  # a function of Keras's such as relu, and none of Python's
        return not hasattr(builtins, str(config.get("config")))
    return module is None or module in _OPEN


def _is_ours(registered):
    return str(registered).startswith("lci_tf>") and tf.keras.utils.get_registered_object(registered) is not None
