"""Sums up the results: accuracies as a table, a verdict in one line for each transformation, a file and a plot."""

import dataclasses
import json
import math
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from lci_tf import files, runs
from lci_tf.config.settings import Settings
from lci_tf.evaluation.locality.bags import WHOLE, Window
from lci_tf.evaluation.locality.cells import Cell, Summary
from lci_tf.plotting import plots
from lci_tf.runs.provenance import Question

TOLD = 0.75
"""Accuracy from which on a transformation counts as told from natural images."""
_NEAR_CHANCE = 0.05


class Accuracy(NamedTuple):
    """Accuracy in [0, 1]: mean over seeds, its standard error (over images, or seeds if larger), and each seed's."""

    mean: float
    error: float
    seeds: tuple[float, ...]


Accuracies = dict[str, dict[Window, Accuracy]]
"""Transformation -> window -> accuracy."""


def accuracies(found: Mapping[Cell, Summary]) -> Accuracies:
    """Combines the cells of all seeds."""
    gathered: dict[str, dict[Window, list[Summary]]] = {}
    for cell, summary in found.items():
        gathered.setdefault(cell.transformation, {}).setdefault(cell.window, []).append(summary)
    return {
        name: {window: _accuracy(summaries) for window, summaries in by_window.items()}
        for name, by_window in gathered.items()
    }


def _accuracy(summaries):
    seeds = tuple(summary["accuracy"] for summary in summaries)
    error = math.hypot(*(summary["standard_error"] for summary in summaries)) / len(seeds)
    if len(seeds) > 1:
        error = max(error, np.std(seeds, ddof=1) / math.sqrt(len(seeds)))
    return Accuracy(float(np.mean(seeds)), float(error), seeds)


def table(found: Accuracies, test_images: int) -> str:
    """The accuracies as a table in percent, with a row per transformation and a column per window."""
    columns = list(next(iter(found.values())))
    width = max(map(len, found)) + 2
    heads = [window if window == WHOLE else f"r = {window}" for window in columns]
    lines = [f"Accuracy in percent, natural or transformed, on {test_images:,} test images; chance is 50"]
    lines.append(" " * (width + 2) + "".join(f"{head:>13s}" for head in heads))
    for name, by_window in found.items():
        cells = [f"{100 * of.mean:.1f} ± {100 * of.error:.1f}" for of in by_window.values()]
        lines.append(f"  {name:{width}s}" + "".join(f"{cell:>13s}" for cell in cells))
    return "\n".join(lines)


def verdict(name: str, by_window: Mapping[Window, Accuracy], crop_size: int) -> str:
    """What the accuracies of a transformation mean, in one line."""
    windows = [window for window in by_window if window != WHOLE]
    best = max(by_window, key=lambda window: by_window[window].mean)
    told = [window for window in by_window if by_window[window].mean >= TOLD]
    if not told:
        unless, most = "not told within this budget", _percent(by_window[best].mean)
        if name == "rot" and WHOLE in by_window and all(map(_is_at_chance, by_window.values())):
            return (f"{name}: {unless}, but at chance for every r and the whole image too (at most {most}): such "
                    "images have no up and down, so that rotations would teach nothing")  # fmt: skip
        return f"{name}: {unless} (at most {most}, {_called(best)})"
    first = min(told, key=lambda window: math.inf if window == WHOLE else window)
    share = by_window[first].mean
    if isinstance(first, str):
        but = f", not from windows up to r = {max(windows)} within this budget" if windows else ""
        return f"{name}: told from the whole image ({_percent(share)}){but}: C has to see what is in it"
    told_from = f"{name}: told from r = {first} on ({_percent(share)})"
    if first <= crop_size / 4:
        return f"{told_from}: C can solve this without seeing the object"
    return f"{told_from}: C can solve this from parts of {_percent((first / crop_size) ** 2)} of the image"


def _percent(share):
    return f"{100 * share:.0f} %"


def _is_at_chance(accuracy):
    return accuracy.mean - 0.5 <= max(_NEAR_CHANCE, 2 * accuracy.error)


def _called(window):
    return "from the whole image" if window == WHOLE else f"at r = {window}"


def described(found: Accuracies, verdicts: Mapping[str, str]) -> dict[str, Any]:
    """Verdicts and accuracies by transformation, in plain values."""
    return {
        name: {"verdict": verdicts[name], "windows": {str(window): of._asdict() for window, of in by_window.items()}}
        for name, by_window in found.items()
    }


def keep(
    folder: pathlib.Path,
    found: Accuracies,
    verdicts: Mapping[str, str],
    settings: Settings,
    network: dict[str, Any] | None,
    asked: Question,
) -> None:
    """Writes `locality.json` and `locality.png`.

    Args:
      folder: where to.
      found, verdicts: accuracies and verdicts by transformation.
      settings: settings of all transformations.
      network: origin of C and F, if they are those of a run.
      asked: what any of the cells depends on, for the images and the budget.
    """
    kept = {
        "transformations": described(found, verdicts),
        "settings": dataclasses.asdict(settings),
        "network": network,
        "data": asked["data"],
        "budget": asked["budget"],
        "versions": runs.versions(),
    }
    files.replace_file(folder / "locality.json", json.dumps(kept, indent=2) + "\n")
    plots.save(plots.locality(found, told=TOLD), folder / "locality.png")
