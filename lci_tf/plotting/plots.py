"""Diagrams with matplotlib, saved as PNG or PDF according to the file name, all in the style that is set here."""

import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from cycler import cycler
from matplotlib.figure import Figure

COLUMN, PAGE = 3.25, 6.875  # widths of figures in a two-column paper, in inches
# The palette of Okabe and Ito, which is safe for the colour-blind, without its yellow, which is invisible on paper.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

matplotlib.rcParams.update({
    "font.size": 8,
    "axes.titlesize": "medium",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.prop_cycle": cycler(color=COLOURS),
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "figure.constrained_layout.use": True,
    "pdf.fonttype": 42,  # embed fonts, so that text stays text
})  # fmt: skip


def save(figure: Figure, path: pathlib.Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=300)


def confusion_matrix(counts: np.ndarray, names: tuple[str, ...], of: str = "images") -> Figure:
    """How images, or pixels, of each class (row) were classified (column), in percent of the class; counts: [k, k]."""
    side = max(3.0, min(12.0, 0.42 * len(names) + 1.5))
    figure = Figure((side, side))
    axes = figure.add_subplot()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.spines[:].set_visible(False)
    named = names if len(names) <= 60 else ()  # more would be illegible
    axes.set_xticks(range(len(named)), named, rotation=90)
    axes.set_yticks(range(len(named)), [f"{name} ({n:,})" for name, n in zip(named, counts.sum(axis=1), strict=False)])
    axes.set_xlabel("classified as, in percent of the class")
    axes.set_ylabel(f"class (number of {of})")
    if len(names) <= 25:
        for row, column in np.ndindex(shares.shape):
            if counts[row, column]:
                share = shares[row, column]
                ink = "white" if share > 0.5 else "black"
                axes.text(column, row, f"{100 * share:.0f}", ha="center", va="center", color=ink, fontsize=7)
    return figure


def knn_accuracy(accuracies: dict[str, dict[int, float]], chance: float | None = None) -> Figure:
    """Accuracy in percent over the number of neighbours, a line for each network or layer.

    Args:
      accuracies: name of the line -> k -> accuracy in [0, 1].
      chance: accuracy of guessing.
    """
    figure = Figure((3.25, 2.4))
    axes = figure.add_subplot()
    for name, by_k in accuracies.items():
        axes.plot(list(by_k), [100 * accuracy for accuracy in by_k.values()], "o-", markersize=3, label=name)
    if chance is not None:
        axes.axhline(100 * chance, color="grey", linewidth=0.8, linestyle=":", label="chance")
    ks = sorted({k for by_k in accuracies.values() for k in by_k})
    axes.set_xscale("log")
    axes.set_xticks(ks, [str(k) for k in ks])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("$k$")
    axes.set_ylabel("accuracy [%]")
    axes.legend(frameon=False)
    return figure


def locality(accuracies: Mapping[str, Mapping[int | str, Any]], told: float) -> Figure:
    """How often transformed images were told from natural ones, over the side of the windows; a line for each.

    Args:
      accuracies: transformation -> window (side in pixels, or "whole") -> an object with `mean` and `error`, in [0, 1].
      told: from which accuracy on a transformation counts as told.
    """
    figure = Figure((COLUMN, 2.4))
    axes = figure.add_subplot()
    for name, by_window in accuracies.items():
        means, errors = ([100 * getattr(of, what) for of in by_window.values()] for what in ("mean", "error"))
        axes.errorbar(range(len(means)), means, errors, fmt="o-", markersize=3, capsize=2, elinewidth=0.8, label=name)
    windows = list(next(iter(accuracies.values())))
    for level, name, line, side in ((100 * told, "counts as told", "--", "bottom"), (50, "chance", ":", "top")):
        axes.axhline(level, color="grey", linewidth=0.8, linestyle=line)
        axes.text(len(windows) - 0.9, level, name, color="grey", fontsize=6, ha="right", va=side)
    axes.set_xticks(range(len(windows)), [f"{w}×{w}" if isinstance(w, int) else w for w in windows])
    axes.set_xlabel("window [pixels]")
    axes.set_ylabel("told from natural images [%]")
    axes.set_ylim(top=101)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=min(3, len(accuracies)))
    return figure


class PrecisionRecall(NamedTuple):
    """A curve for `precision_recall`: precision over recall, both [n] in [0, 1].

    Attributes:
      guessing: the precision of guessing, for a dotted line.
    """

    title: str
    recall: np.ndarray
    precision: np.ndarray
    guessing: float | None = None


def precision_recall(curves: Sequence[PrecisionRecall], drawstyle: str = "default") -> Figure:
    """A small diagram for each curve, five in a row."""
    columns = 5
    rows = math.ceil(len(curves) / columns)
    figure = Figure((PAGE, 1.45 * rows + 0.2))
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, curve in zip(grid, curves, strict=False):
        axes.plot(100 * curve.recall, 100 * curve.precision, drawstyle=drawstyle)
        if curve.guessing is not None:
            axes.axhline(100 * curve.guessing, color="grey", linewidth=0.8, linestyle=":")
        axes.set_title(curve.title, loc="left", fontsize=7)
        axes.set(xlim=(0, 100), ylim=(0, 105))
    for axes in grid[len(curves) :]:
        axes.remove()
    for axes in grid[max(0, len(curves) - columns) : len(curves)]:
        axes.tick_params(labelbottom=True)
    figure.supxlabel("recall [%]", fontsize="medium")
    figure.supylabel("precision [%]", fontsize="medium")
    return figure
