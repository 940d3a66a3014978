"""What a learner makes of some images, to be looked at."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from lci_tf.pretraining.learner import Patches, Pretraining

_CENTRE = (0.5, 0.5, 1.0, 0.5)  # as `transforms.cut` draws it: the middle, not tilted


class Examples(NamedTuple):
    """Arrays, [n, side, side, 3] in [-1, 1].

    Attributes:
      images: with their margin.
      transformed: by label, what C sees; empty without C.
      patches: what F was given and made; None without F.
      inpainted: the images with F's patches; None without F.
    """

    images: np.ndarray
    transformed: dict[str, np.ndarray]
    patches: Patches | None
    inpainted: np.ndarray | None


def examples_of(learner: Pretraining, batch: dict[str, Any]) -> Examples:
    """Of a batch as `batches.training_batches` has it."""
    x, draws = batch["image"], batch["draws"]
    patches = learner.inpaint(x, draws, training=False)
    transformed, inpainted = {}, None
    if learner.classifier:
        stacks = [stack.numpy() for stack in learner.transformed(x, patches, draws)]
        transformed = dict(zip(learner.labels, stacks, strict=True))
    if patches is not None:
        inpainted = learner.lci.paste(x, patches.inpainted, patches.places).numpy()
        patches = Patches(*(part if part is None else part.numpy() for part in patches))
    return Examples(x.numpy(), transformed, patches, inpainted)


def centred(batch: dict[str, Any]) -> dict[str, Any]:
    """The same batch, but what C sees is cut out of the middle and never tilted: so classes can be compared."""
    cut = batch["draws"]["cut"]
    return {**batch, "draws": {**batch["draws"], "cut": tf.broadcast_to(tf.constant(_CENTRE, cut.dtype), cut.shape)}}


def middle(images: np.ndarray, crop_size: int) -> tuple[np.ndarray, int]:
    """What `centred` leaves of images [n, side, side, 3], and how far from the edge it begins."""
    edge = (images.shape[1] - crop_size + 1) // 2
    return images[:, edge : edge + crop_size, edge : edge + crop_size], edge
