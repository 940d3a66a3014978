"""Identifies the network of an export or a server by its features of a fixed picture.

A server does not reveal its weights, and may serve them under any name.
"""

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from lci_tf.errors import InputError

ANSWERS = "answers"  # their key in the record that is kept with the features
_VALUES = 64  # number kept of an answer, which may be a whole map
# Other devices and float16 weights change the third digit of the largest value; another network changes the first.
_TOLERANCE = 0.01


@functools.cache
def png() -> bytes:
    waves = np.sin(np.add.outer(np.arange(64) ** 1.5 / 20, np.arange(64) / 3)[..., None] * (1, 2, 3))
    return tf.io.encode_png((127.5 + 127.5 * waves).astype(np.uint8)).numpy()


def answers(features: Mapping[str, np.ndarray]) -> dict[str, list[float]]:
    """What to keep of the picture's features, by name."""
    return {name: _some_of(np.ravel(rows)) for name, rows in features.items()}


def check(before: Mapping[str, Any], now: Mapping[str, list[float]], what: str) -> None:
    """Raises `InputError` if a network does not answer like the one that made the features.

    Args:
      before: the record that is kept with the features.
      now: the answers of this network; only those that are in the record are compared.
      what: begins the message.
    """
    if ANSWERS not in before:
        raise InputError(f"{what}: does not say which network made its features, as an earlier version of lci_tf wrote "
                         "it; embed the images again, into another --out_dir")  # fmt: skip
    for name, values in now.items():
        known = before[ANSWERS].get(name, values)
        differ_by = np.inf if len(known) != len(values) else np.max(np.abs(np.subtract(known, values)))
        if not differ_by <= _TOLERANCE * np.max(np.abs(known)):
            raise InputError(f"{what}: its features are another network's; give that one as --model or --server, or "
                             "embed the images with this one, into another --out_dir")  # fmt: skip


def _some_of(values):
    places = np.linspace(0, len(values) - 1, min(len(values), _VALUES)).astype(int)
    return [round(float(values[i]), 6) for i in places]
