"""Pairs of natural and transformed images as in training, for measuring what gives a transformation away."""

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import tensorflow as tf

from lci_tf import transforms
from lci_tf.config.settings import Settings
from lci_tf.data import draws
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import Source
from lci_tf.pretraining import batches
from lci_tf.pretraining.learner import Pretraining
from lci_tf.pretraining.players import Draws


class Contrast(NamedTuple):
    """Two classes made from the same source images, row by row: float32 [n, crop, crop, 3] in [-1, 1]."""

    natural: tf.Tensor
    transformed: tf.Tensor


def learner_of(settings: Settings, trained: Pretraining | None = None) -> Pretraining:
    """A learner that makes images of the settings' transformations, without a C.

    Args:
      settings: settings of a training; only their `transforms` are made.
      trained: the learner whose F inpaints; only needed for LCI.
    """
    made = transforms.create(settings.transforms, settings)
    if not any(transform.is_inpainted for transform in made):
        return Pretraining(None, None, None, made, settings)
    return Pretraining(None, trained.inpainter, trained.discriminator, made, settings)


def contrasts(learner: Pretraining, x: tf.Tensor, drawn: Draws, choice: tf.Tensor) -> list[Contrast]:
    """A contrast for each transformation of the learner, in its order.

    Natural images are untouched identity images; but for LCI, they are the same images with the same cut and an
    autoencoded patch at the same place. Otherwise any trace of F would reveal LCI, while in training it does not, as
    half of the identity images have such patches. (If the training does not autoencode patches, natural images keep
    their own patch.)

    Args:
      learner: makes the images, see `learner_of`.
      x: images with their margin, [n, side, side, 3].
      drawn: see `batches.draw`.
      choice: uniform draws [n], which choose a label for each image if a transformation has several.
    """
    patches = learner.inpaint(x, drawn)  # as in training, both kinds of patches are normalised in one batch
    untouched = patches and patches._replace(autoencoded=None)
    stacks = dict(zip(learner.labels, learner.transformed(x, untouched, drawn), strict=True))
    made = []
    for transform in learner.transforms:
        natural = stacks["identity"]
        if transform is learner.lci:
            own = patches.original if patches.autoencoded is None else patches.autoencoded
            as_lci = learner.transformed(x, untouched._replace(inpainted=own), drawn)
            natural = as_lci[learner.labels.index("lci")]
        made.append(Contrast(natural, _one_of([stacks[label] for label in transform.labels], choice)))
    return made


def _one_of(stacks, choice):
    """Chooses one of the stacks for each row, all equally likely."""
    chosen = tf.cast(choice * len(stacks), tf.int32)
    return tf.gather(tf.stack(stacks, axis=1), chosen, axis=1, batch_dims=1)


def in_batches(
    learner: Pretraining, source: Source, settings: Settings, seed: int, report: InputReport
) -> Iterator[list[Contrast]]:
    """Yields the contrasts of the training's batches, without end: every image once per epoch.

    F does not change: its moving averages are restored after each batch.
    """
    make = tf.function(lambda batch, choice: contrasts(learner, batch["image"], batch["draws"], choice))
    with report.one_line_errors():
        for step, batch in enumerate(batches.training_batches(source, settings, learner.transforms, seed, report)):
            choice = draws.uniform(seed, draws.LABEL, tf.constant(step, tf.int64), settings.batch_size)
            with _unchanged(learner.inpainter):
                made = make(batch, choice)
            yield made


@contextlib.contextmanager
def _unchanged(network):
    before = network and network.get_weights()
    yield
    if network:
        network.set_weights(before)
