"""Writes the results of a probe.

Besides the files of `results_folder`, its folder contains confusion_*.png for each layer, if images have one class
each, and checkpoints/ and tensorboard/.
"""

import pathlib
from collections.abc import Sequence

import numpy as np

from lci_tf.evaluation import results
from lci_tf.evaluation.probe.head_evaluation import Found
from lci_tf.evaluation.results import MULTI, SINGLE
from lci_tf.runs import results_folder
from lci_tf.runs.results_folder import Results


def results_of(found: Sequence[Found], label_names: Sequence[str]) -> Results:
    """Results to keep, by layer and crops (see `results`), from those of `evaluate_heads` for one or several folds."""
    return {
        layer: {crops: results.summary([fold[layer][crops] for fold in found], label_names) for crops in by_crops}
        for layer, by_crops in found[0].items()
    }


def keep(folder: pathlib.Path, found: Results) -> None:
    """Writes `results.json`, and numbers and confusion matrices for TensorBoard."""
    import tensorflow as tf

    step = found["network"].get(
        "step", 0
    )  # the step of the pre-training, so that TensorBoard shows probes along the training
    with tf.summary.create_file_writer(str(folder / "tensorboard")).as_default(step):
        for layer, by_crops in found["layers"].items():
            for crops, summary in by_crops.items():
                kind = results.kind(summary)
                value = float("nan") if summary[kind] is None else summary[kind]
                tf.summary.scalar(f"test_{kind}_{crops}/{layer}", value)
            picture = folder / f"confusion_{layer}.png"
            if picture.is_file():
                tf.summary.image(f"confusion/{layer}", tf.io.decode_png(picture.read_bytes(), channels=3)[tf.newaxis])
    results_folder.keep(folder, found)


def draw_confusion(folder: pathlib.Path, found: Sequence[Found], label_names: Sequence[str]) -> None:
    """Draws `confusion_LAYER.png` for each layer, for the single crop, summed over all folds."""
    from lci_tf.plotting import plots

    for layer in found[0]:
        by_fold = (fold[layer][SINGLE].confusion for fold in found)
        counts = [confusion for confusion in by_fold if confusion is not None]
        if counts:
            picture = plots.confusion_matrix(np.sum(counts, axis=0), tuple(label_names))
            plots.save(picture, folder / f"confusion_{layer}.png")


def has_multi_crop(found: Results) -> bool:
    """Whether the results include ten crops."""
    return all(MULTI in by_crops for by_crops in found["layers"].values())
