"""What classifiers on frozen features are worth on test images, by one crop and by several."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from lci_tf.evaluation import metrics
from lci_tf.evaluation.probe.frozen import FrozenFeatures
from lci_tf.evaluation.probe.tasks import Task

# From units [n, units] to scores [n, classes], both by layer.
Heads = Callable[[dict[str, tf.Tensor]], dict[str, tf.Tensor]]
# Layer -> `SINGLE` and, if test images come in several views, `MULTI`.
Found = dict[str, dict[str, metrics.Evaluation]]
SINGLE, MULTI = "single_crop", "ten_crops"


def evaluate_heads(features: FrozenFeatures, heads: Sequence[Heads], task: Task, are_logits: bool) -> list[Found]:
    """Tests several heads in one pass, so that the network sees each image once.

    Args:
      are_logits: whether scores are logits. Over several crops the mean of their softmax counts then, as in the
        authors' code. For several labels per image, and scores that are no logits, it is the mean of the scores: a
        sigmoid that is 1 to the last digit would make ties.
    """

    @tf.function(reduce_retracing=True)
    def score(images):
        views = images.shape[1]
        units = features(tf.reshape(images, [-1, *images.shape[2:]]))
        return [{layer: by_crops(scores, views) for layer, scores in head(units).items()} for head in heads]

    def by_crops(scores, views):
        scores = tf.reshape(scores, [-1, views, scores.shape[-1]])
        found = {SINGLE: scores[:, 0]}
        if views > 1:
            softmax = are_logits and task.label_kind == "class"
            found[MULTI] = tf.reduce_mean(tf.nn.softmax(scores) if softmax else scores, axis=1)
        return found

    collected, labels = [], []
    with tqdm(total=task.test_count, desc="testing", unit=" images", leave=False) as bar:
        for batch in task.test():
            counts = counted(batch)
            scored = tf.nest.map_structure(lambda scores, counts=counts: scores.numpy()[counts], score(batch["image"]))
            collected.append(scored)
            labels.append(batch["label"].numpy()[counts])
            bar.update(len(counts))
    labels = np.concatenate(labels)
    return tf.nest.map_structure(lambda *parts: metrics.evaluate(np.concatenate(parts), labels), *collected)


def counted(batch: dict[str, tf.Tensor]) -> np.ndarray:
    """bool [n]: the images that could be read and, if they have a class each, have one."""
    label = batch["label"].numpy()
    return batch["valid"].numpy() & (label >= 0 if label.ndim == 1 else True)
