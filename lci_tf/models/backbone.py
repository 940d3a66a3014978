"""`Backbone`, the interface of architectures that can serve as C, and how to find one by name."""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from lci_tf.config.names import BACKBONES, load
from lci_tf.errors import InputError


class Backbone(NamedTuple):
    """The parts from which `models.classifier` builds C.

    Attributes:
      features: (width, sync_bn) -> a model named "features", from images of any size to a dict of maps conv1…conv5.
      head: (conv5, classes, width, sync_bn) -> logits.
      smallest_crop: side of the smallest images for which conv5 is not empty, in pixels.
    """

    features: Callable[..., tf.keras.Model]
    head: Callable[..., tf.Tensor]
    smallest_crop: int = 1


def find_backbone(name: str) -> Backbone:
    """The backbone of this name, one of `lci_tf.config.names.BACKBONES`."""
    if name not in BACKBONES:
        raise InputError(f"--backbone={name}: unknown; expected one of {', '.join(BACKBONES)}")
    return load(BACKBONES[name])
