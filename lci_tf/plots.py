"""Diagrams, by matplotlib: PNG, or PDF by the ending of the file's name. All figures have the style set here."""

import pathlib

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

COLUMN, PAGE = 3.25, 6.875  # inches: how wide figures are in a paper of two columns
# Okabe and Ito's, which the colour-blind tell apart, without their yellow, which paper does not show.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_NAMED = 20  # classes at most that have colours which one can tell apart

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
    axes.set_xticks(range(len(names)), names, rotation=90)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("taken for")
    if len(names) <= 25:
        for row, column in np.ndindex(shares.shape):
            if counts[row, column]:
                share = shares[row, column]
                ink = "white" if share > 0.5 else "black"
                axes.text(column, row, f"{100 * share:.0f}", ha="center", va="center", color=ink, fontsize=7)
    return figure


def image_map(
    points: np.ndarray, thumbnails: np.ndarray, labels: np.ndarray | None = None, names: tuple[str, ...] = ()
) -> Figure:
    """Images on a plane: a dot for each, and as many thumbnails as there is room for.

    Args:
      points: [n, 2].
      thumbnails: uint8 [n, side, side, 3].
      labels: int [n], a class of `names`, or -1 for none; classes have colours.
    """
    points = points - (points.min(axis=0) + points.max(axis=0)) / 2
    reach = np.abs(points).max(axis=0)
    if reach[1] > reach[0]:  # which way is up means nothing, and papers are wide
        points, reach = points[:, ::-1], reach[::-1]
    points, half = points / max(reach[0], 1e-9), 0.035  # of a thumbnail's side, where the map is two wide
    right, top = reach / max(reach[0], 1e-9) + 1.2 * half
    labels = np.full(len(points), -1) if labels is None else labels
    colours, has_legend = _class_colours(len(names)), 0 < len(names) <= _NAMED
    figure = Figure((PAGE, (PAGE - 0.9 * has_legend) * top / right))
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.scatter(*points.T, s=5, c=colours[labels], linewidths=0)
    for i in _apart(points, 2.2 * half):
        (x, y), edge = points[i], colours[labels[i]]
        axes.imshow(thumbnails[i], extent=(x - half, x + half, y - half, y + half), interpolation="bicubic", zorder=2)
        frame = Rectangle((x - half, y - half), 2 * half, 2 * half, fill=False, edgecolor=edge, linewidth=1, zorder=3)
        axes.add_patch(frame)
    axes.set(xlim=(-right, right), ylim=(-top, top), aspect="equal")
    if has_legend:
        dots = [Line2D([], [], marker="o", linestyle="", markersize=4, color=c) for c in colours[:-1]]
        figure.legend(dots, names, loc="outside right center", handletextpad=0)
    return figure


def _class_colours(count):
    """[count + 1, 4]; the last is for images without a class."""
    if count <= _NAMED:
        found = matplotlib.colormaps["tab10" if count <= 10 else "tab20"](np.arange(count))
    else:
        found = matplotlib.colormaps["hsv"](np.arange(count) / count)
    return np.concatenate([found, [matplotlib.colors.to_rgba("0.6")]])


def _apart(points, distance):
    """Numbers of points, chosen at random, of which no two are nearer than this in both directions."""
    chosen: list[int] = []
    for i in np.random.default_rng(0).permutation(len(points)):
        if np.abs(points[chosen] - points[i]).max(axis=1).min(initial=np.inf) >= distance:
            chosen.append(i)
    return chosen
