"""Trains classifiers to tell transformed images from natural ones, and tests them."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from lci_tf.evaluation.locality import bags
from lci_tf.evaluation.locality.bags import WHOLE, Window
from lci_tf.evaluation.locality.pairs import Pairs

_PAIRS = 32
_AT_ONCE = 100
Judge = Callable[[tf.Tensor], tf.Tensor]
"""Images [n, crop, crop, 3] to evidence [n, height, width]; see `bags`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Budget:
    """How much a classifier is trained, the same for every transformation and window.

    Attributes:
      images: number of source images, three quarters of them to train on.
      views: how many times each training image is cropped and transformed; with one, large windows would overfit.
      steps: number of steps, with 32 natural and 32 transformed images each, from the same source images.
    """

    images: int = 4000
    views: int = 3
    steps: int = 750

    def learning_rate(self, window: Window) -> float:
        """The initial learning rate of Adam, which falls to 0 with a cosine."""
        return 1e-3 if window == WHOLE else 5e-3

    def described(self) -> str:
        """The budget in words."""
        of_bags, of_whole = (self.learning_rate(window) for window in (3, WHOLE))
        return (
            f"{self.steps:,} steps of {_PAIRS} + {_PAIRS} images; bags of windows have {bags.FILTERS} filters; Adam's "
            f"rate is {of_bags:g}, for whole images {of_whole:g}, falling to 0"
        )


class Evidence(NamedTuple):
    """The evidence for all test images, [n, height, width] each: above 0 for windows that look transformed."""

    natural: np.ndarray
    transformed: np.ndarray

    @property
    def is_right(self) -> np.ndarray:
        """Whether natural and transformed images are classified correctly, bool [2, n]."""
        natural, transformed = (evidence.mean(axis=(1, 2)) for evidence in self)
        return np.stack([natural <= 0, transformed > 0])


def learn(window: Window, pairs: Pairs, budget: Budget, seed: int) -> Judge:
    """Trains a new classifier."""
    tf.keras.utils.set_random_seed(seed)
    network = bags.classifier(window, pairs.natural.shape[1])
    rate = tf.keras.optimizers.schedules.CosineDecay(budget.learning_rate(window), budget.steps)
    optimizer = tf.keras.optimizers.Adam(rate)
    labels = tf.repeat([0.0, 1.0], _PAIRS)

    @tf.function(autograph=False)
    def step(images):
        with tf.GradientTape() as tape:
            logits = tf.reduce_mean(network(tf.cast(images, tf.float32), training=True), axis=(1, 2))
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))
        variables = network.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    random = np.random.default_rng(seed)
    order = itertools.chain.from_iterable(random.permutation(len(pairs.natural)) for _ in itertools.count())
    for _ in range(budget.steps):
        rows = list(itertools.islice(order, _PAIRS))
        step(np.concatenate([stack[rows] for stack in pairs]))
    return network


def ask(network: Judge, pairs: Pairs) -> Evidence:
    """Computes a classifier's evidence for images."""
    parts = range(0, len(pairs.natural), _AT_ONCE)
    return Evidence(*(
        np.concatenate([network(tf.cast(stack[i : i + _AT_ONCE], tf.float32)).numpy() for i in parts])
        for stack in pairs
    ))  # fmt: skip


def by_classifier(classifier: tf.keras.Model, labels: Sequence[int]) -> Judge:
    """Turns C into a classifier of whole images.

    Args:
      classifier: C.
      labels: the classes that count as transformed. Here, all of them together are as frequent as identity; in C's
        training, each of them was. So the mean of their probabilities is compared with that of identity.
    """

    def evidence(images):
        logits = classifier(images, training=False)["logits"]
        transformed = tf.reduce_logsumexp(tf.gather(logits, labels, axis=1), axis=1) - math.log(len(labels))
        return (transformed - logits[:, 0])[:, tf.newaxis, tf.newaxis]

    return evidence


def summary(evidence: Evidence) -> dict[str, Any]:
    """The accuracy on all test images, with its standard error, and on each class, in plain values.

    As both images of a source are similar, the error is that of a mean over sources.
    """
    right = evidence.is_right
    of_source = right.mean(axis=0)
    return {
        "accuracy": float(of_source.mean()),
        "standard_error": float(of_source.std() / np.sqrt(len(of_source))),
        "natural": float(right[0].mean()),
        "transformed": float(right[1].mean()),
        "test_images": right.size,
    }
