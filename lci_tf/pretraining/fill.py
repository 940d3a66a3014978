"""Measures how natural F's patches are, to watch a training with LCI by, besides its losses."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from lci_tf.pretraining.learner import Pretraining
from lci_tf.pretraining.players import pairs

Batches = Iterable[dict[str, Any]]


class FillMeasures:
    """Measures whether F's patches match their surroundings, and whether D can tell them from natural ones.

    Even if it ignores the surroundings, F can make patches that C and D take for natural for a while, such as the same
    noise everywhere; then their colours are unrelated to those of the image.
    """

    def __init__(self, batches: Callable[[], Batches]):
        """`batches` returns the sample, the same each time: batches of `"image"`, with their margin, and `"draws"`."""
        self._batches = batches

    def __call__(self, learner: Pretraining, step: int) -> dict[str, float]:
        """Measures on the sample:

        `"fill/colour_correlation"`: correlation of the mean colour of the border with that of the middle of F's hole
          (next to the border, any F gets the colours right);
        `"fill/natural_correlation"`: the same for the original images, which F should approach;
        `"fill/discriminator_natural"`, `"fill/discriminator_inpainted"`: the share of natural and of inpainted pairs
          that D recognises, ½ each if it guesses.
        """
        colours, right = [], []
        for batch in self._batches():
            seen, judged = _measure(learner, batch["image"], batch["draws"])
            colours.append(seen.numpy())
            right.append(judged.numpy())
        border, natural, inpainted = np.concatenate(colours, axis=1)
        measured = {
            "fill/colour_correlation": correlation(border, inpainted),
            "fill/natural_correlation": correlation(border, natural),
        }
        if learner.discriminator:
            real, fake = np.concatenate(right, axis=1).mean(axis=1)
            measured |= {"fill/discriminator_natural": float(real), "fill/discriminator_inpainted": float(fake)}
        return measured


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Mean over the channels of Pearson's correlation of colours [n, 3]; a channel that is constant counts as 0."""
    a, b = (values - values.mean(axis=0) for values in (a.astype(np.float64), b.astype(np.float64)))
    size = np.sqrt((a**2).sum(axis=0) * (b**2).sum(axis=0))
    return float(np.divide((a * b).sum(axis=0), size, out=np.zeros(a.shape[1]), where=size > 1e-12).mean())


def _measure(learner, x, draws):
    """Mean colours of the border, of the original middle and of F's middle, [3, n, 3]; and whether D's decisions on
    natural and on inpainted pairs were right, 0 or 1, [2, n / 2].
    """
    patches = learner.inpaint(x, draws, training=False)
    border = 1 - learner.lci.mask
    edge = patches.original.shape[1] // 4
    before, after = (p[:, edge:-edge, edge:-edge] for p in (patches.original, patches.inpainted))
    colours = tf.stack(
        [
            tf.reduce_sum(patches.original * border, axis=[1, 2]) / tf.reduce_sum(border),
            tf.reduce_mean(before, axis=[1, 2]),
            tf.reduce_mean(after, axis=[1, 2]),
        ]
    )
    if not learner.discriminator:
        return colours, tf.zeros([2, 0])
    real, fake = (learner.discriminator(pairs(p), training=False)[:, 0] for p in (patches.original, patches.inpainted))
    return colours, tf.cast(tf.stack([real > 0, fake < 0]), tf.float32)
