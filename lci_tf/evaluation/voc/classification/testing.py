"""Evaluates scores: average precision of each class by two definitions, for one crop of each image and for all.

The folder of the results contains:

results.json, protocol.json       see `results_folder`
precision_recall.png              a curve for each class
worst_mistakes.png                what was taken for a class, and what was missed
model.keras, labels.txt, export/  the classifier
scores.npz                        `scores` [images, classes], the sums of the logits; `labels`, `images`, `names`
training_images.png               training images as the network sees them
metrics.jsonl, tensorboard/       metrics during training
checkpoints/                      deleted when it is finished
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn import metrics

from lci_tf.evaluation.results import percent
from lci_tf.evaluation.voc.average_precision import eleven_point

Results = dict[str, Any]


def evaluate(logits: np.ndarray, labels: np.ndarray, names: Sequence[str]) -> Results:
    """Average precision, in [0, 1], as plain values.

    Args:
      logits: float [n, crops, classes]; an image's score is their sum over the crops.
      labels: int8 [n, classes]: 1, 0, or -1, which does not count.
    """
    found: Results = {"test_images": len(labels), "crops": logits.shape[1]}
    for crops in dict.fromkeys((1, logits.shape[1])):
        scores = logits[:, :crops].sum(axis=1)
        by_class = [of_class(s, y) for s, y in zip(scores.T, labels.T, strict=True)]
        found[_key(crops)] = {
            "average_precision": _mean(ap for ap, _ in by_class),
            "eleven_points": _mean(ap for _, ap in by_class),
            "per_class": dict(zip(names, (ap for ap, _ in by_class), strict=True)),
            "eleven_points_per_class": dict(zip(names, (ap for _, ap in by_class), strict=True)),
        }
    return found


def of_class(scores: np.ndarray, labels: np.ndarray) -> tuple[float | None, float | None]:
    """Average precision by scikit-learn and by VOC's eleven points; None if no image has the class."""
    counts = labels >= 0
    scores, labels = scores[counts], labels[counts]
    if not labels.any():
        return None, None
    precision, recall, _ = metrics.precision_recall_curve(labels, scores)
    # scikit-learn adds a point at the end, of recall 0 and precision 1, which belongs to no image.
    return float(metrics.average_precision_score(labels, scores)), eleven_point(recall[:-1], precision[:-1])


def table(results: Results) -> str:
    """The results as a table in percent, with a row per class."""
    keys = [_key(crops) for crops in dict.fromkeys((1, results["crops"]))]
    heads = [f"{key.replace('_', ' ')}" for key in keys]
    margin = max(len(name) for name in [*results[keys[0]]["per_class"], "mean"]) + 2
    columns = [(key, value) for key in keys for value in ("per_class", "eleven_points_per_class")]
    means = [(key, value) for key in keys for value in ("average_precision", "eleven_points")]
    lines = [
        f"Average precision in percent, on {results['test_images']:,} test images",
        "  " + " " * margin + "".join(f"{head:>20s}" for head in heads),
        "  " + " " * margin + f"{'AP':>10s}{'11 points':>10s}" * len(keys),
        f"  {'mean':{margin}s}" + "".join(_cell(results[key][value]) for key, value in means),
    ]
    for name in results[keys[0]]["per_class"]:
        lines.append(f"  {name:{margin}s}" + "".join(_cell(results[key][value][name]) for key, value in columns))
    return "\n".join(lines)


def _key(crops):
    return "one_crop" if crops == 1 else f"{crops}_crops"


def _mean(values):
    """The mean over the classes that have images."""
    present = [value for value in values if value is not None]
    return float(np.mean(present)) if present else None


def _cell(value):
    return f"{percent(value):>10s}"
