"""What a served network gives for an image: an embedding, feature maps, the transformation that C sees."""

import os
from collections.abc import Callable, Iterable, Sequence

import tensorflow as tf

from lci_tf.errors import InputError
from lci_tf.imaging import images
from lci_tf.models.pooling import grid_of, pool
from lci_tf.runs.trained import FeatureModel
from lci_tf.serving.export.crops import DEFAULT_LIMITS, Limits
from lci_tf.serving.export.signatures import Served

EMBEDDING, TRANSFORMATION, POOLED = "embedding", "transformation", "_pooled"


def names(layers: Sequence[str]) -> list[str]:
    """All features that can be asked for: the embedding, and each map whole or pooled."""
    return [EMBEDDING, *layers, *(f"{layer}{POOLED}" for layer in layers)]


class ServedFeatures(Served):
    """C of a run, from bytes or pixels to features; and as `load_features` takes it."""

    def __init__(
        self,
        model: FeatureModel,
        features: Sequence[str] = (EMBEDDING,),
        on_bad_image: str = "error",
        assets: Iterable[str | os.PathLike] = (),
        limits: Limits = DEFAULT_LIMITS,
    ):
        """Takes what to give, some of `names`; for the others see `Served`."""
        for feature in features:
            if feature not in names(model.layers):
                raise InputError(f"--features={feature}: unknown; there are {', '.join(names(model.layers))}")
        if model.crop_size is None or model.resize is None:
            raise ValueError("model: expected C of a run, which knows its crops")
        super().__init__(
            _answers(model.classifier, tuple(features)),
            model.classifier.weights,
            model.crop_size,
            model.resize,
            on_bad_image=on_bad_image,
            assets=assets,
            limits=limits,
        )
        maps = model.classifier.get_layer("features")
        self.feature_weights = list(maps.weights)
        self._features_of_pixels = lambda pixels: features_of_pixels(maps, pixels)

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.float32, name="images")])
    def features_of_pixels(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
        """See the function of this name, under which exports store it; those of lci_tf 0.1 call it `of_levels`."""
        return self._features_of_pixels(images)


def features_of_pixels(maps: tf.keras.Model, pixels: tf.Tensor) -> dict[str, tf.Tensor]:
    """Whole images, pixels 0…255, float32 [n, height, width, 3], to the embedding and all maps, for inference."""
    made = maps(images.scale(pixels), training=False)
    return {name: _feature(made, name) for name in (EMBEDDING, *made)}


def _answers(classifier, features) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    def answer(views):
        made = classifier(views[:, 0], training=False)
        outputs = {name: _feature(made, name) for name in features}
        return {**outputs, TRANSFORMATION: tf.nn.softmax(made["logits"])}

    return answer


def _feature(made, name):
    if name == EMBEDDING:
        return tf.math.l2_normalize(tf.reduce_mean(tf.cast(made["conv5"], tf.float32), [1, 2]), axis=1)
    if name.endswith(POOLED):
        feature_map = made[name.removesuffix(POOLED)]
        return pool(feature_map, grid_of(feature_map.shape[-1]))
    return tf.cast(made[name], tf.float32)
