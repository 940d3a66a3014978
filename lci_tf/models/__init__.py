"""The networks of the paper as plain Keras models: C (the classifier), F (the inpainter) and D (the discriminator)."""

import tensorflow as tf

from lci_tf.errors import InputError
from lci_tf.models.backbone import Backbone, find_backbone
from lci_tf.models.inpainter import inpainter
from lci_tf.models.patch_discriminator import patch_discriminator

__all__ = ["Backbone", "classifier", "find_backbone", "inpainter", "patch_discriminator"]


def classifier(
    backbone: str, classes: int, crop_size: int, width: float = 1.0, sync_bn: bool = False
) -> tf.keras.Model:
    """Builds C, from images [n, crop_size, crop_size, 3] in [-1, 1] to a dict of feature maps conv1…conv5 and logits.

    The maps are taken after batch normalisation and ReLU, before pooling; logits are float32 [n, classes]. The inner
    model that computes the maps, `model.get_layer("features")`, takes images of any size.

    Args:
      backbone: a name in `lci_tf.config.names.BACKBONES`.
      classes: number of classes.
      crop_size: side of the images, in pixels.
      width: factor for the numbers of filters and units, except the last layer's; below 1 for quick runs.
      sync_bn: compute batch-norm statistics over all replicas, instead of within each.
    """
    features, head, smallest_crop = find_backbone(backbone)
    if crop_size < smallest_crop:
        raise InputError(f"--crop_size={crop_size}: too small for --backbone={backbone}, at least {smallest_crop}")
    images = tf.keras.Input([crop_size, crop_size, 3], name="images")
    maps = features(width=width, sync_bn=sync_bn)(images)
    logits = head(maps["conv5"], classes, width, sync_bn)
    return tf.keras.Model(images, {**maps, "logits": logits}, name=backbone)
