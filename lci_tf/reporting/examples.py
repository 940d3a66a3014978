"""A batch as it is best looked at: in the middle, and not tilted."""

from typing import Any

import numpy as np
import tensorflow as tf

_CENTRE = (0.5, 0.5, 1.0, 0.5)  # as `transforms.cut` draws it: the middle, not tilted


def centred(batch: dict[str, Any]) -> dict[str, Any]:
    """The same batch, but what C sees is cut out of the middle and never tilted: so classes can be compared."""
    cut = batch["draws"]["cut"]
    return {**batch, "draws": {**batch["draws"], "cut": tf.broadcast_to(tf.constant(_CENTRE, cut.dtype), cut.shape)}}


def middle(images: np.ndarray, crop_size: int) -> tuple[np.ndarray, int]:
    """What `centred` leaves of images [n, side, side, 3], and how far from the edge it begins."""
    edge = (images.shape[1] - crop_size + 1) // 2
    return images[:, edge : edge + crop_size, edge : edge + crop_size], edge
