"""Tests classifiers on frozen features, with a single crop and with several crops of each image."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from lci_tf.data.extraction import extract
from lci_tf.evaluation import metrics
from lci_tf.evaluation.probe.frozen import FrozenFeatures
from lci_tf.evaluation.probe.tasks import Task
from lci_tf.evaluation.results import MULTI, SINGLE

# Heads: a function from layer -> units [n, units] to layer -> scores [n, classes].
Heads = Callable[[dict[str, tf.Tensor]], dict[str, tf.Tensor]]
# Results: layer -> `SINGLE` and, if test images come in several views, `MULTI` -> evaluation.
Found = dict[str, dict[str, metrics.Evaluation]]


def evaluate_heads(features: FrozenFeatures, heads: Sequence[Heads], task: Task, are_logits: bool) -> list[Found]:
    """Tests several heads in one pass, in which the network sees each image once.

    Args:
      features: the network.
      heads: the heads to test.
      task: the images to test on.
      are_logits: whether scores are logits. Then the result over several crops is the mean of their softmax, as in the
        authors' code. For several labels per image, or scores that are not logits, it is the mean of the scores, as
        sigmoids that round to 1 would be ties.

    Returns:
      For each of the heads, its results.
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

    scored, labels = extract(score, task.test(), task.test_count, "testing")
    return tf.nest.map_structure(lambda scores: metrics.evaluate(scores, labels), scored)
