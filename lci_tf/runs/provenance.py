"""Records what a result depends on: images and labels, weights, settings, and the version of this package.

A *question* is all of these in plain values. The same question has the same answer, wherever images and networks are
stored. A result is kept with its question, and reused only for the same question.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Any, Protocol

import lci_tf

Question = dict[str, Any]
_VERSION = "lci_tf"
_PLACES = ("name", "run", "checkpoint", "model")  # entries of a network's origin that say where it is


class Identifiable(Protocol):
    """Part of a data set that can be identified, such as a `Source`."""

    @property
    def split(self) -> str: ...

    @property
    def count(self) -> int | None: ...

    @property
    def fingerprint(self) -> dict[str, Any]: ...


def question(**parts: Any) -> Question:
    """A question with these parts, in the form in which it is read from a file: with lists instead of tuples."""
    return json.loads(json.dumps({**parts, _VERSION: lci_tf.__version__}))


def of_images(source: Identifiable, labels: bool = True) -> dict[str, Any]:
    """Identifies images, in plain values, and their labels if these are used."""
    found = {"split": source.split, "images": source.count, **source.fingerprint}
    return found if labels else {name: value for name, value in found.items() if name != "labels"}


def of_network(origin: dict[str, Any]) -> dict[str, Any]:
    """Identifies a network by its weights: `FeatureModel.origin` without its name and location."""
    return {name: value for name, value in origin.items() if name not in _PLACES}


def digest(asked: Question) -> str:
    """Eight hexadecimal digits that differ whenever the question does."""
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:8]


def difference(before: Question, now: Question) -> str | None:
    """The first part in which two questions differ, in words; None if they are the same."""
    if _VERSION not in before:
        return "of unknown origin, which an earlier version of lci_tf did not record"
    was, asked = dict(_flat(before)), dict(_flat(now))
    for name in sorted(was.keys() | asked.keys()):
        if was.get(name) != asked.get(name):
            return f"with another {name} ({was.get(name)}, not {asked.get(name)})"
    return None


def line(asked: Question) -> str:
    """What a result depends on, in one line for the screen."""
    parts = [f"{part['split']} {_short(part)}" for part in _all_with("contents", asked.get("data", {}))]
    networks = [network for network in asked.get("networks") or [asked["network"]] if network is not None]
    weights = ", ".join(network.get("digest", "random") for network in networks)
    said = [f"images {', '.join(dict.fromkeys(parts))}", f"weights {weights}" if networks else ""]
    return "; ".join([*filter(None, said), f"lci_tf {asked[_VERSION]}"])


def _short(part):
    return "/".join(digits[:8] for digits in (part["contents"], part["labels"]) if digits)


def _all_with(name, value) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if name in value:
            yield value
        for inner in value.values():
            yield from _all_with(name, inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _all_with(name, inner)


def _flat(value, name="") -> Iterator[tuple[str, Any]]:
    """Pairs of a path and a value, such as ("data.train.images", 5000)."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else key)
    else:
        yield name, value
