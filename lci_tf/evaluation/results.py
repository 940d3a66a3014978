"""Results of tests, by layer and by crops (one or ten), as plain values for files and as a table for the screen."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lci_tf.evaluation.metrics import Evaluation

SINGLE, MULTI = "single_crop", "ten_crops"
_SHOWN_LABELS = 50  # with more labels, the table leaves them out

Summary = dict[str, Any]


def summary(folds: Sequence[Evaluation], label_names: Sequence[str]) -> Summary:
    """A result to keep: for several folds, their mean, each fold's value, and the spread (standard deviation)."""
    values = [fold.value for fold in folds]
    per_class = np.mean([fold.per_class for fold in folds], axis=0)  # all folds have the same test images
    kept: Summary = {
        folds[0].kind.replace(" ", "_"): number(np.mean(values)),
        "test_images": folds[0].count,
        "per_class": {name: number(value) for name, value in zip(label_names, per_class, strict=True)},
    }
    if len(folds) > 1:
        kept |= {"spread": number(np.std(values, ddof=1)), "folds": [number(value) for value in values]}
    return kept


def kind(kept: Summary) -> str:
    """What was measured: the key of the main value."""
    return next(iter(kept))


def table(layers: dict[str, dict[str, Summary]]) -> str:
    """A table in percent, with a column per layer: for a single crop, for ten crops if there are, for each class."""
    first = next(iter(layers.values()))
    of_first = first[SINGLE]
    labels = list(of_first["per_class"]) if len(of_first["per_class"]) <= _SHOWN_LABELS else []
    margin = max(len(text) for text in [*labels, SINGLE, "of each class"]) + 2
    width = max(13 if "spread" in of_first else 9, *(len(layer) + 2 for layer in layers))

    def row(name, cells):
        return f"  {name:{margin}s}" + "".join(f"{cell:>{width}s}" for cell in cells)

    of_folds = f", mean and spread of {len(of_first['folds'])} folds" if "folds" in of_first else ""
    measured = kind(of_first).replace("_", " ").capitalize()
    lines = [f"{measured} in percent, on {of_first['test_images']:,} test images{of_folds}", row("", layers)]
    for crops in (SINGLE, MULTI):
        if crops in first:
            lines.append(row(crops.replace("_", " "), [_cell(by_crops[crops]) for by_crops in layers.values()]))
    if labels:
        lines.append("  of each class")
    for label in labels:
        lines.append(row(label, [percent(by_crops[SINGLE]["per_class"][label]) for by_crops in layers.values()]))
    return "\n".join(lines)


def _cell(kept):
    spread = f" ± {100 * kept['spread']:.1f}" if "spread" in kept else ""
    return percent(kept[kind(kept)]) + spread


def percent(value: float | None) -> str:
    """A share for a table in percent."""
    return "–" if value is None else f"{100 * value:.1f}"


def number(value: float | np.floating) -> float | None:
    """A number for JSON, in which NaN becomes null."""
    return None if np.isnan(value) else float(value)
