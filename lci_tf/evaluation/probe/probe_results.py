"""What came of a probe: what to keep of it, a table, and pictures of what was taken for what.

In its folder, beside what `results_folder` says: confusion_*.png of each layer, where images have one class each;
checkpoints/ and tensorboard/.
"""

import pathlib
from collections.abc import Sequence

import numpy as np

from lci_tf.evaluation.probe.head_evaluation import MULTI, SINGLE, Found
from lci_tf.runs import results_folder
from lci_tf.runs.results_folder import Results

_SHOWN_LABELS = 50  # a table of more is for a file


def results_of(found: Sequence[Found], label_names: Sequence[str]) -> Results:
    """What to keep of what `evaluate_heads` found, once or for several folds: by layer and crops, plain values.

    Of several folds the mean, each fold's value, and their spread: the standard deviation.
    """
    return {
        layer: {crops: _summary([fold[layer][crops] for fold in found], label_names) for crops in by_crops}
        for layer, by_crops in found[0].items()
    }


def _summary(folds, label_names):
    values = [fold.value for fold in folds]
    per_class = np.mean([fold.per_class for fold in folds], axis=0)  # a class has test images in all folds or in none
    summary = {
        folds[0].kind.replace(" ", "_"): _number(np.mean(values)),
        "test_images": folds[0].count,
        "per_class": {name: _number(value) for name, value in zip(label_names, per_class, strict=True)},
    }
    if len(folds) > 1:
        summary |= {"spread": _number(np.std(values, ddof=1)), "folds": [_number(value) for value in values]}
    return summary


def keep(folder: pathlib.Path, results: Results) -> None:
    """Writes `results.json`, and the figures and pictures of the layers for TensorBoard."""
    import tensorflow as tf

    step = results["network"].get("step", 0)  # of the pre-training, so that TensorBoard can set probes side by side
    with tf.summary.create_file_writer(str(folder / "tensorboard")).as_default(step):
        for layer, by_crops in results["layers"].items():
            for crops, summary in by_crops.items():
                tf.summary.scalar(f"test_{_kind(summary)}_{crops}/{layer}", _value(summary))
            picture = folder / f"confusion_{layer}.png"
            if picture.is_file():
                tf.summary.image(f"confusion/{layer}", tf.io.decode_png(picture.read_bytes(), channels=3)[tf.newaxis])
    results_folder.keep(folder, results)


def draw_confusion(folder: pathlib.Path, found: Sequence[Found], label_names: Sequence[str]) -> None:
    """`confusion_LAYER.png` for each layer, by the single crop, over all folds."""
    from lci_tf.plotting import plots

    for layer in found[0]:
        counts = [fold[layer][SINGLE].confusion for fold in found]
        if counts[0] is not None:
            plots.save(plots.confusion_matrix(sum(counts), tuple(label_names)), folder / f"confusion_{layer}.png")


def table(results: Results) -> str:
    """A column per layer, in percent: by one crop, by ten if they were taken, and class by class."""
    layers = results["layers"]
    first = next(iter(layers.values()))[SINGLE]
    labels = list(first["per_class"]) if len(first["per_class"]) <= _SHOWN_LABELS else []
    margin = max(len(text) for text in [*labels, SINGLE, "of each class"]) + 2
    width = max(13 if "spread" in first else 9, *(len(layer) + 2 for layer in layers))

    def row(name, cells):
        return f"  {name:{margin}s}" + "".join(f"{cell:>{width}s}" for cell in cells)

    of_folds = f", mean and spread of {len(first['folds'])} folds" if "folds" in first else ""
    kind = _kind(first).replace("_", " ").capitalize()
    lines = [f"{kind} in percent, on {first['test_images']:,} test images{of_folds}"]
    lines.append(row("", layers))
    for crops in (SINGLE, MULTI):
        if crops in next(iter(layers.values())):
            lines.append(row(crops.replace("_", " "), [_cell(by_crops[crops]) for by_crops in layers.values()]))
    if labels:
        lines.append("  of each class")
    for label in labels:
        lines.append(row(label, [_percent(by_crops[SINGLE]["per_class"][label]) for by_crops in layers.values()]))
    return "\n".join(lines)


def has_multi_crop(results: Results) -> bool:
    return all(MULTI in by_crops for by_crops in results["layers"].values())


def _kind(summary):
    """What was measured."""
    return next(iter(summary))


def _value(summary):
    value = summary[_kind(summary)]
    return float("nan") if value is None else value


def _cell(summary):
    spread = f" ± {100 * summary['spread']:.1f}" if "spread" in summary else ""
    return _percent(_value(summary)) + spread


def _percent(value):
    return "–" if value is None else f"{100 * value:.1f}"


def _number(value) -> float | None:
    """JSON has no word for what is not a number."""
    return None if np.isnan(value) else float(value)
