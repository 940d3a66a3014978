"""Builds, freezes and tests the classifier: a network with a new head, which is fine-tuned, saved and served."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from lci_tf import models
from lci_tf.data import pipeline
from lci_tf.data.extraction import extract
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import Source
from lci_tf.errors import InputError
from lci_tf.imaging.images import VIEWS
from lci_tf.runs.trained import FeatureModel

HEAD = "head"  # stands for the new layers wherever a layer is named
_CACHE_BYTES = 2**29
_ACTIVATIONS = {"class": "softmax", "multi-label": "sigmoid"}


def build(model: FeatureModel, classes: int, label_kind: str, crop_size: int, seed: int = 0) -> tf.keras.Model:
    """Adds a new head to the last map of a network, with which the result shares its layers.

    The head is like C's: fc1, fc2 and fc3 for AlexNet; global average pooling and one dense layer for ResNet-34 and
    any other network. Its weights are new: those of C's head are for transformations, not objects, and for one size of
    image.

    Args:
      model: the network.
      classes: number of classes or labels.
      label_kind: `"class"` or `"multi-label"`.
      crop_size: side of the images, in pixels.
      seed: random seed for the new weights.

    Returns:
      A model from images [n, crop_size, crop_size, 3] in [-1, 1] to a dict of the maps by layer, `"logits"` and
      `"probabilities"`, both float32 [n, classes]. For classes, probabilities sum to 1; several labels are independent.
    """
    if not isinstance(model.maps, tf.keras.Model):
        raise InputError(f"--model={model.origin['model']}: a SavedModel cannot be fine-tuned; give a Keras model")
    if model.maps.input_shape[1] not in (None, crop_size):
        raise InputError(f"--crop_size={crop_size}: --model takes images of {model.maps.input_shape[1]} pixels only")
    # Networks from elsewhere get the simple head.
    backbone = models.find_backbone(model.origin.get("backbone", "resnet34"))
    if crop_size < backbone.smallest_crop:
        raise InputError(f"--crop_size={crop_size}: too small for this network, at least {backbone.smallest_crop}")
    tf.keras.utils.set_random_seed(seed)
    images = tf.keras.Input([crop_size, crop_size, 3], name="images")
    maps = model.maps(images)
    logits = backbone.head(maps[model.layers[-1]], classes, model.origin.get("width", 1.0))
    activation = tf.keras.layers.Activation(_ACTIVATIONS[label_kind], dtype="float32", name="probabilities")
    return tf.keras.Model(images, {**maps, "logits": logits, "probabilities": activation(logits)}, name="classifier")


def freeze_below(model: FeatureModel, layer: str | None) -> None:
    """Freezes the layers below `layer`; with `HEAD`, all but the new ones; with None, none.

    A frozen batch normalisation uses and keeps its statistics.
    """
    # The order of other networks' layers is unknown.
    known = (*model.layers, HEAD) if "backbone" in model.origin else (HEAD,)
    maps: tf.keras.Model = model.maps
    maps.trainable = True
    if layer is None:
        return
    if layer not in known:
        raise InputError(f"--from_layer={layer}: no such layer; there are {', '.join(known)}")
    for below in model.layers[-1:] if layer == HEAD else model.layers[: model.layers.index(layer)][-1:]:
        for frozen in tf.keras.Model(maps.input, maps.output[below]).layers:
            frozen.trainable = False


def by_view(network: tf.keras.Model) -> Callable[[tf.Tensor], tf.Tensor]:
    """A function from views of images, [n, views, crop, crop, 3] in [-1, 1], to probabilities [n, views, classes]."""

    def probabilities(images):
        views, size = images.shape[1:3]
        each = network(tf.reshape(images, [-1, size, size, 3]), training=False)["probabilities"]
        return tf.reshape(each, [-1, views, each.shape[-1]])

    return probabilities


def answers(
    network: tf.keras.Model, label_names: Sequence[str], label_kind: str
) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    """The function to export: from views of images, as in `by_view`, to answers.

    It returns `"probabilities"`, float32 [n, classes], the mean over the views; `"labels"`, strings [n, classes], the
    names of the classes; and, if images have one class each, `"label"`, strings [n], the most probable one.
    """

    def answer(images):
        names = tf.constant(label_names)
        probabilities = tf.reduce_mean(by_view(network)(images), axis=1)
        outputs = {"probabilities": probabilities, "labels": tf.tile(names[tf.newaxis], [tf.shape(images)[0], 1])}
        if label_kind == "class":
            outputs["label"] = tf.gather(names, tf.argmax(probabilities, axis=1))
        return outputs

    return answer


class Tester:
    """Computes the probabilities of all images of a source; can be called repeatedly while the network is trained."""

    def __init__(
        self,
        network: tf.keras.Model,
        source: Source,
        crops: pipeline.Crops,
        batch_size: int,
        report: InputReport,
        views: str = "centre",
        again: bool = False,
    ):
        """Prepares the test; `crops` must have the size that the network was built for.

        Args:
          views: the crops of each image, a name in `images.VIEWS`.
          again: whether it will be called often; then crops are kept in memory, unless they are too many.
        """
        self._batches = pipeline.evaluation_batches(source, crops, batch_size, report, views)
        size = len(VIEWS[views]) * crops.crop_size**2 * 3 * 4  # of an image, in bytes
        if again and source.count and source.count * size <= _CACHE_BYTES:
            self._batches = self._batches.cache()
        spec = self._batches.element_spec["image"]
        self._probabilities = tf.function(by_view(network), input_signature=[spec])
        self._source, self._report = source, report

    def __call__(self, doing: str = "testing") -> tuple[np.ndarray, np.ndarray]:
        """Returns probabilities, float32 [n, views, classes], and labels as in `Source`.

        Images that cannot be read, or whose class is unknown (-1), are left out.
        """
        return extract(self._probabilities, self._batches, self._source.count, doing, self._report, delay=1)
