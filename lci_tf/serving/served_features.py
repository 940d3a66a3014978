"""What a served network gives for an image: an embedding, feature maps, the transformation that C sees."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from lci_tf.errors import InputError
from lci_tf.imaging import images
from lci_tf.models.pooling import grid_of, pool
from lci_tf.runs.trained import FeatureModel
from lci_tf.serving.export import crops

EMBEDDING, TRANSFORMATION, VALID, POOLED = "embedding", "transformation", "valid", "_pooled"


def names(layers: Sequence[str]) -> list[str]:
    """All features that can be asked for: the embedding, and each map whole or pooled."""
    return [EMBEDDING, *layers, *(f"{layer}{POOLED}" for layer in layers)]


class ServedFeatures(tf.Module):
    """What is exported: C with its preprocessing, from bytes or pixels to features.

    Args:
      model: of a run.
      features: which, of `names`.
      on_bad_image: `"error"`, or `"zeros"` and an output `valid`.
      assets: files to go along.
    """

    def __init__(
        self,
        model: FeatureModel,
        features: Sequence[str] = (EMBEDDING,),
        on_bad_image: str = "error",
        assets: Sequence[str] = (),
    ):
        super().__init__()
        for feature in features:
            if feature not in names(model.layers):
                raise InputError(f"--features={feature}: unknown; there are {', '.join(names(model.layers))}")
        self._crop_size, self._resize = model.crop_size, model.resize
        self._features, self._on_bad_image = tuple(features), on_bad_image
        self._classifier = lambda: model.classifier  # hidden, or all layers of it would be written as functions too
        self.weights = list(model.classifier.weights)
        self.files = [tf.saved_model.Asset(path) for path in assets]
        self.feature_weights = list(model.classifier.get_layer("features").weights)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="image_bytes")])
    def of_bytes(self, image_bytes):
        cropped, valid = crops.of_bytes(image_bytes, self._crop_size, self._resize)
        if self._on_bad_image == "error":
            return self._outputs(crops.require_all(cropped, valid, image_bytes))
        outputs = self._outputs(cropped)
        blank = {name: tf.where(_as_column(valid, value), value, 0) for name, value in outputs.items()}
        return {**blank, VALID: valid}

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.uint8, name="images")])
    def of_images(self, images):
        outputs = self._outputs(crops.of_images(images, self._crop_size, self._resize))
        if self._on_bad_image == "zeros":
            outputs[VALID] = tf.ones([tf.shape(images)[0]], tf.bool)
        return outputs

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.float32, name="images")])
    def of_levels(self, images):
        """The embedding and all maps of images taken whole, for `load_features`."""
        return of_levels(self._classifier().get_layer("features"), images)

    @property
    def signatures(self) -> dict[str, Callable]:
        return {"serving_default": self.of_bytes, "images": self.of_images}

    def _outputs(self, cropped):
        made = self._classifier()(cropped[:, 0], training=False)
        outputs = {name: _feature(made, name) for name in self._features}
        return {**outputs, TRANSFORMATION: tf.nn.softmax(made["logits"])}


def of_levels(maps: tf.keras.Model, levels: tf.Tensor) -> dict[str, tf.Tensor]:
    """Grey levels 0…255, float32 [n, height, width, 3], to the embedding and all maps, in inference mode."""
    made = maps(images.scale(levels), training=False)
    return {name: _feature(made, name) for name in (EMBEDDING, *made)}


def _feature(made, name):
    if name == EMBEDDING:
        return tf.math.l2_normalize(tf.reduce_mean(tf.cast(made["conv5"], tf.float32), [1, 2]), axis=1)
    if name.endswith(POOLED):
        feature_map = made[name.removesuffix(POOLED)]
        return pool(feature_map, grid_of(feature_map.shape[-1]))
    return tf.cast(made[name], tf.float32)


def _as_column(valid, value):
    return tf.reshape(valid, [-1] + [1] * (len(value.shape) - 1))
