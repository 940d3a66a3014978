"""Diagrams, by matplotlib: PNG, or PDF by the ending of the file's name. All figures have the style set here."""

import pathlib

import matplotlib
import numpy as np
from matplotlib.figure import Figure

COLUMN, PAGE = 3.25, 6.875  # inches: how wide figures are in a paper of two columns
# Okabe and Ito's, which the colour-blind tell apart, without their yellow, which paper does not show.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

matplotlib.rcParams.update({
    "font.size": 8,
    "axes.titlesize": "medium",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.prop_cycle": matplotlib.cycler(color=COLOURS),
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "figure.constrained_layout.use": True,
    "pdf.fonttype": 42,  # letters stay letters
})  # fmt: skip


def save(figure: Figure, path: pathlib.Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=300)


def confusion_matrix(counts: np.ndarray, names: tuple[str, ...]) -> Figure:
    """What images of each class (row) were taken for (column), in percent of the class."""
    side = max(3.0, min(12.0, 0.42 * len(names) + 1.5))
    figure = Figure((side, side))
    axes = figure.add_subplot()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.spines[:].set_visible(False)
    named = names if len(names) <= 60 else ()  # more would be a black edge
    axes.set_xticks(range(len(named)), named, rotation=90)
    axes.set_yticks(range(len(named)), named)
    axes.set_xlabel("taken for")
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
      accuracies: by the name of the line, then by k; in [0, 1].
      chance: what guessing would give.
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
