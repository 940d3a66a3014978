"""Training curves as small multiples: for one run a panel per kind of metric, for several runs a panel per metric."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator, NullLocator
from sklearn.isotonic import isotonic_regression

from lci_tf.errors import InputError
from lci_tf.plotting import plots

Metrics = Sequence[dict[str, float]]

_HEIGHT = 1.4  # of a panel with its title and ticks, in inches
_LABEL = 6.5  # font size of labels, in points
_FEW = 25  # with fewer values than this, each is marked
_LONGEST = 230.0  # font size times number of letters of a title that is as wide as a panel
_LABELS = {"classifier": "C", "discriminator": "D", "inpainter": "F", "inpainter_gan": "F", "autoencoding": "autoenc.",
           "identity_untouched": "identity", "identity_autoencoded": "autoenc."}  # fmt: skip


class _Panel(NamedTuple):
    """Metrics that share a panel: those whose names match a pattern, the group of which is the label of the line.

    Attributes:
      title: title of the panel.
      title_of_one: title if runs are compared, and each metric has its own panel; if empty, it has none.
      pattern: regular expression for names in `metrics.jsonl`.
      dashed: another pattern, for metrics with the same labels that are drawn dashed.
      percent: whether values in [0, 1] are shown in percent.
      logarithmic: whether the axis is logarithmic.
      noisy: whether values are smoothed.
    """

    title: str
    title_of_one: str
    pattern: str
    dashed: str = ""
    percent: bool = False
    logarithmic: bool = False
    noisy: bool = True


_PANELS = (
    _Panel("loss of C", "loss of C", "loss/(classifier)"),
    _Panel("accuracy of C (%)", "accuracy of C, {} (%)", "accuracy/(.*)", percent=True),
    _Panel("hinge losses", "hinge loss of {}", "loss/(discriminator|inpainter_gan)"),
    _Panel("squared errors of F", "error of F, {}", "loss/(border|autoencoding)", logarithmic=True),
    _Panel("learning rates", "", "learning_rate/(.*)", noisy=False),
    _Panel("linear probe, dashed kNN (%)", "linear probe, {} (%)", "probe/(.*)_ridge", "probe/(.*)_knn", percent=True,
           noisy=False),
)  # fmt: skip


def curves(runs: Mapping[str, Metrics]) -> Figure:
    """Plots logged metrics over the steps; noisy ones pale, with a smoothed line on top.

    Args:
      runs: name of a run -> its records from `runs.Run.metrics`. Several runs have a colour each.

    Raises:
      InputError: nothing was logged yet.
    """
    panels = _panels(runs)
    if not panels:
        raise InputError("metrics.jsonl: has no losses or accuracies yet")
    columns = min(len(panels), 3)
    rows = math.ceil(len(panels) / columns)
    figure = Figure((plots.PAGE, rows * _HEIGHT), layout=ConstrainedLayoutEngine(hspace=0.06))
    grid = figure.subplots(rows, columns, sharex=True, squeeze=False).ravel()
    for place, axes in enumerate(grid):
        if place >= len(panels):
            axes.remove()
            continue
        _draw(axes, *panels[place], runs)
        if place + columns >= len(panels):
            axes.tick_params(labelbottom=True)
    figure.supxlabel("step", fontsize="medium")  # once, not below each column
    if len(runs) > 1:
        figure.legend(*grid[0].get_legend_handles_labels(), loc="outside upper left", ncols=4)
    return figure


def smoothed(values: np.ndarray) -> np.ndarray:
    """Smooths values with a Gaussian as wide as a fiftieth of the points; NaN and infinity are left out."""
    width = max(len(values) / 50, 0.5)
    reach = min(math.ceil(3 * width), (len(values) - 1) // 2)
    bell = np.exp(-0.5 * (np.arange(-reach, reach + 1) / width) ** 2)
    is_number = np.isfinite(values)
    total, weight = (np.convolve(v, bell, "same") for v in (np.where(is_number, values, 0), is_number.astype(float)))
    return np.divide(total, weight, out=np.full(len(values), np.nan), where=weight > 0)


def _panels(runs) -> list[tuple[_Panel, str, list[str]]]:
    """The panels to draw: (panel, title, names of its metrics)."""
    found = [(panel, _names(panel.pattern, runs)) for panel in _PANELS]
    if len(runs) == 1:
        return [(panel, panel.title, names) for panel, names in found if names]
    apart: dict[tuple[_Panel, str], list[str]] = {}
    for panel, names in found:
        for name in names if panel.title_of_one else ():
            # Without autoencoded patches, all identity images are untouched, and are logged under another name.
            title = panel.title_of_one.format(_label(panel.pattern, name))
            apart.setdefault((panel._replace(dashed=""), title), []).append(name)
    return [(panel, title, names) for (panel, title), names in apart.items()]


def _names(pattern, runs):
    logged = dict.fromkeys(name for metrics in runs.values() for record in metrics for name in record)
    return [name for name in logged if re.fullmatch(pattern, name)]


def _label(pattern, name):
    found = re.fullmatch(pattern, name)
    label = found[1] if found else name
    return _LABELS.get(label, label.replace("_", " "))


def _draw(axes: Axes, panel: _Panel, title, names, runs):
    axes.set_title(title, loc="left", fontsize=min(8.0, _LONGEST / len(title)))
    lines = []
    for run, metrics in runs.items():
        # If runs are compared, each has one line and one colour, even if the line is empty.
        logged = [name for name in names if any(name in record for record in metrics)] or names[:1]
        for name in names if len(runs) == 1 else logged[:1]:
            label = run if len(runs) > 1 else _label(panel.pattern, name)
            steps, values = _series(metrics, name, panel)
            lines.append(_draw_line(axes, panel, steps, values, label, pale=len(names) > 2))
    if panel.dashed:
        colours = {line.get_label(): line.get_color() for line in lines}
        (metrics,) = runs.values()
        for name in _names(panel.dashed, runs):
            colour = colours.get(_label(panel.dashed, name))
            axes.plot(*_series(metrics, name, panel), "--", color=colour, linewidth=0.8)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 5, 10]))
    if panel.logarithmic:
        _scale_logarithmically(axes)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if len(runs) == 1 and len(names) > 1:
        _label_ends(axes, lines)


def _series(metrics, name, panel):
    """The logged values of a metric: (steps, values)."""
    records = [(record["step"], record[name]) for record in metrics if name in record]
    steps, values = np.array(records).reshape(-1, 2).T
    return steps, values * (100 if panel.percent else 1)


def _draw_line(axes, panel, steps, values, label, pale):
    if panel.noisy and len(values) >= _FEW:
        (raw,) = axes.plot(steps, values, alpha=0.12 if pale else 0.3, linewidth=0.6, zorder=1)
        (line,) = axes.plot(steps, smoothed(values), color=raw.get_color(), label=label)
    else:
        (line,) = axes.plot(steps, values, marker="o" if len(values) < _FEW else None, markersize=2, label=label)
    return line


def _scale_logarithmically(axes):
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
    axes.yaxis.set_minor_locator(NullLocator())


def _label_ends(axes, lines):
    """Labels each line at its end, as near as the other labels allow."""
    low = axes.get_ylim()[0]
    ends = [(0, next((y for y in line.get_ydata()[::-1] if np.isfinite(y)), low)) for line in lines]
    places = axes.transAxes.inverted().transform(axes.transData.transform(ends))[:, 1]
    order, height = (
        np.argsort(places),
        1.2 * _LABEL / 72 / (_HEIGHT - 0.45),
    )  # of a letter, as a share of the axes' height
    above = height * np.arange(len(places))
    apart = isotonic_regression(places[order] - above, y_min=0, y_max=max(0, 1 - above[-1])) + above
    for line, place in zip(np.take(lines, order), apart, strict=True):
        axes.text(1.03, place, line.get_label(), transform=axes.transAxes, va="center",
                  fontsize=_LABEL, color=line.get_color())  # fmt: skip
