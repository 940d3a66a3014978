"""What C and F make of a run's first images, for the figures that show it."""

from typing import Any

import numpy as np
import tensorflow as tf

from lci_tf.errors import InputError
from lci_tf.pretraining import batches, training
from lci_tf.pretraining.learner import Examples
from lci_tf.pretraining.players import Players
from lci_tf.reporting.materials import Materials
from lci_tf.transforms.cut import UNTILTED_CENTRE


def learner(materials: Materials) -> Players:
    return training.restored(materials.prefix)


def first_batch(materials: Materials) -> dict[str, Any]:
    """The run's first images, with their draws."""
    report = materials.report(materials.source)
    transforms = materials.once(learner).transforms

    def make(worker, start_step):
        seen = (materials.source, materials.settings, transforms, materials.seed)
        return batches.training_batches(*seen, report, start_step, worker)

    with report.one_line_errors():
        return training.first_rows(make)


def examples(materials: Materials) -> Examples:
    """What C and F make of these; what C sees is cut out of the middle, so that it can be compared."""
    batch = centred(materials.once(first_batch))
    return materials.once(learner).examples(batch["image"], batch["draws"])


def examples_with_patches(materials: Materials) -> Examples:
    if "lci" not in materials.settings.transforms:
        raise InputError(
            f"--run_dir={materials.run.path}: inpaints no patches, since lci is not among its --transforms"
        )
    return materials.once(examples)


def centred(batch: dict[str, Any]) -> dict[str, Any]:
    """The same batch with draws that cut from the centre without a tilt, so that the classes can be compared."""
    cut = batch["draws"]["cut"]
    centre = tf.broadcast_to(tf.constant(UNTILTED_CENTRE, cut.dtype), cut.shape)
    return {**batch, "draws": {**batch["draws"], "cut": centre}}


def middle(images: np.ndarray, crop_size: int) -> tuple[np.ndarray, int]:
    """The part of images [n, side, side, 3] that `centred` keeps, and its distance from the edge in pixels."""
    edge = (images.shape[1] - crop_size + 1) // 2
    return images[:, edge : edge + crop_size, edge : edge + crop_size], edge
