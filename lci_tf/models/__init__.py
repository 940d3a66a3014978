"""C, F and D as plain Keras models."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from lci_tf.errors import InputError
from lci_tf.models import alexnet, resnet
from lci_tf.models.inpainter import inpainter
from lci_tf.models.patch_discriminator import patch_discriminator

__all__ = ["BACKBONES", "Backbone", "classifier", "inpainter", "patch_discriminator"]


class Backbone(NamedTuple):
    """What C is made of.

    Attributes:
      features: (width, sync_bn) -> a model named "features", images of any size to a dict conv1…conv5.
      head: (conv5, classes, width, sync_bn) -> logits.
      smallest_crop: side of the smallest image that has a conv5.
    """

    features: Callable[..., tf.keras.Model]
    head: Callable[..., tf.Tensor]
    smallest_crop: int = 1


# A new backbone is one line here.
BACKBONES: dict[str, Backbone] = {
    "alexnet_small": Backbone(functools.partial(alexnet.features, "same"), alexnet.head),
    "alexnet": Backbone(functools.partial(alexnet.features, "valid"), alexnet.head, alexnet.SMALLEST_VALID),
    "resnet34": Backbone(resnet.features, resnet.head),
}


def classifier(
    backbone: str, classes: int, crop_size: int, width: float = 1.0, sync_bn: bool = False
) -> tf.keras.Model:
    """C: images [n, crop_size, crop_size, 3] in [-1, 1] to a dict of the feature maps conv1…conv5 and the logits.

    The maps are after batch normalisation and ReLU and before pooling; logits are float32 [n, classes]. The model
    within that makes the maps takes images of any size: `model.get_layer("features")`.

    Args:
      backbone: a name in `BACKBONES`.
      classes: how many to tell apart.
      crop_size: side of an image.
      width: multiplies all filters and units, but for the classes; for quick runs.
      sync_bn: batch normalisation over all replicas instead of within each.
    """
    if backbone not in BACKBONES:
        raise InputError(f"--backbone={backbone}: unknown; expected one of {', '.join(BACKBONES)}")
    features, head, smallest_crop = BACKBONES[backbone]
    if crop_size < smallest_crop:
        raise InputError(f"--crop_size={crop_size}: too small for --backbone={backbone}, at least {smallest_crop}")
    images = tf.keras.Input([crop_size, crop_size, 3], name="images")
    maps = features(width=width, sync_bn=sync_bn)(images)
    logits = head(maps["conv5"], classes, width, sync_bn)
    return tf.keras.Model(images, {**maps, "logits": logits}, name=backbone)
