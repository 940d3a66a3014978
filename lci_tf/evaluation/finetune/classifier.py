"""A network with a new head: what is fine-tuned, saved and served."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from lci_tf import models
from lci_tf.data import pipeline
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import Source
from lci_tf.errors import InputError
from lci_tf.imaging.images import VIEWS
from lci_tf.runs.trained import FeatureModel

HEAD = "head"  # in the place of a layer: the new ones
_CACHE_BYTES = 2**29
_ACTIVATIONS = {"class": "softmax", "multi-label": "sigmoid"}


def build(model: FeatureModel, classes: int, label_kind: str, crop_size: int, seed: int = 0) -> tf.keras.Model:
    """Puts a new head on the last map of a network, whose layers it shares.

    The head is that of C: fc1, fc2 and fc3 on AlexNet, global average pooling and one dense layer on ResNet-34, as on
    any other network. None of its weights are pre-trained: those of C's own head know transformations, not objects,
    and belong to one size of image.

    Args:
      label_kind: `"class"` or `"multi-label"`.
      seed: of the new weights.

    Returns:
      Images [n, crop_size, crop_size, 3] in [-1, 1] to a dict of the maps by layer, `"logits"` and `"probabilities"`,
      both float32 [n, classes]. Probabilities sum to 1 over classes; of several labels each is one by itself.
    """
    if not isinstance(model.maps, tf.keras.Model):
        raise InputError(f"--model={model.origin['model']}: a SavedModel cannot be trained on; give a Keras model")
    if model.maps.input_shape[1] not in (None, crop_size):
        raise InputError(f"--crop_size={crop_size}: --model takes images of {model.maps.input_shape[1]} pixels only")
    # One that is not ours gets the simple head.
    backbone = models.BACKBONES[model.origin.get("backbone", "resnet34")]
    if crop_size < backbone.smallest_crop:
        raise InputError(f"--crop_size={crop_size}: too small for this network, at least {backbone.smallest_crop}")
    tf.keras.utils.set_random_seed(seed)
    images = tf.keras.Input([crop_size, crop_size, 3], name="images")
    maps = model.maps(images)
    logits = backbone.head(maps[model.layers[-1]], classes, model.origin.get("width", 1.0))
    activation = tf.keras.layers.Activation(_ACTIVATIONS[label_kind], dtype="float32", name="probabilities")
    return tf.keras.Model(images, {**maps, "logits": logits, "probabilities": activation(logits)}, name="classifier")


def freeze_below(model: FeatureModel, layer: str | None) -> None:
    """Has only the layers from `layer` up be trained, with `HEAD` only the new ones, with None all.

    A frozen batch normalisation uses the statistics that it has, and keeps them.
    """
    known = (*model.layers, HEAD) if "backbone" in model.origin else (HEAD,)  # what others call theirs, nobody knows
    model.maps.trainable = True
    if layer is None:
        return
    if layer not in known:
        raise InputError(f"--from_layer={layer}: no such layer; there are {', '.join(known)}")
    for below in model.layers[-1:] if layer == HEAD else model.layers[: model.layers.index(layer)][-1:]:
        for frozen in tf.keras.Model(model.maps.input, model.maps.output[below]).layers:
            frozen.trainable = False


def by_view(network: tf.keras.Model) -> Callable[[tf.Tensor], tf.Tensor]:
    """The function from views of images, [n, views, crop, crop, 3] in [-1, 1], to probabilities [n, views, classes]."""

    def probabilities(images):
        views, size = images.shape[1:3]
        each = network(tf.reshape(images, [-1, size, size, 3]), training=False)["probabilities"]
        return tf.reshape(each, [-1, views, each.shape[-1]])

    return probabilities


def answers(
    network: tf.keras.Model, label_names: Sequence[str], label_kind: str
) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    """The function that is served: from views of images, as in `by_view`, to what users ask for.

    It gives `"probabilities"`, float32 [n, classes], the mean over the views; `"labels"`, strings [n, classes], the
    names that go with them; and of classes `"label"`, strings [n], the name of the most probable.
    """

    def answer(images):
        names = tf.constant(label_names)
        probabilities = tf.reduce_mean(by_view(network)(images), axis=1)
        outputs = {"probabilities": probabilities, "labels": tf.tile(names[tf.newaxis], [tf.shape(images)[0], 1])}
        if label_kind == "class":
            outputs["label"] = tf.gather(names, tf.argmax(probabilities, axis=1))
        return outputs

    return answer


class Predictor:
    """Tells of all images of a source how probable each class is; again and again, as the network changes."""

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
        """Takes crops that the network was built for.

        Args:
          views: see `images.VIEWS`.
          again: whether it will be called often. Then crops are kept in memory, if they are not too many.
        """
        self._batches = pipeline.evaluation_batches(source, crops, batch_size, report, views)
        size = len(VIEWS[views]) * crops.crop_size**2 * 3 * 4  # of an image, in bytes
        if again and source.count and source.count * size <= _CACHE_BYTES:
            self._batches = self._batches.cache()
        spec = self._batches.element_spec["image"]
        self._probabilities = tf.function(by_view(network), input_signature=[spec])
        self._source, self._report = source, report

    def __call__(self, doing: str = "testing") -> tuple[np.ndarray, np.ndarray]:
        """Probabilities, float32 [n, views, classes], and labels as `Source` has them.

        Images that cannot be read, or whose class is not known (-1), are left out.
        """
        scores, labels = [], []
        bar = tqdm(total=self._source.count, desc=doing, unit=" images", leave=False, delay=1)
        with self._report.one_line_errors(), bar:
            for batch in self._batches:
                label = batch["label"].numpy()
                counts = batch["valid"].numpy() & (label.ndim == 2 or label >= 0)
                scores.append(self._probabilities(batch["image"]).numpy()[counts])
                labels.append(label[counts])
                bar.update(len(counts))
        return np.concatenate(scores), np.concatenate(labels)
