"""A SavedModel that takes encoded images or pixels, and preprocesses them within, as training and evaluation do."""

import os
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from lci_tf.serving.export import crops

# What the signatures are called, and their only input.
BYTES, PIXELS = "serving_default", "images"
BYTES_INPUT, PIXELS_INPUT = "image_bytes", "images"
VALID = "valid"


class Served(tf.Module):
    """What is exported. `save` writes it with two signatures of the same outputs.

    `serving_default` takes `image_bytes`, strings [n]: encoded images of any size. `images` takes `images`, uint8
    [n, height, width, 3].
    """

    def __init__(
        self,
        function: Callable[[tf.Tensor], dict[str, tf.Tensor]],
        variables: Iterable[tf.Variable],
        crop_size: int,
        resize: float,
        views: str = "centre",
        on_bad_image: str = "error",
        assets: Iterable[str | os.PathLike] = (),
        limits: crops.Limits = crops.DEFAULT_LIMITS,
    ):
        """Stores the function from crops to outputs, and how images are cropped.

        Args:
          function: views of images, float32 [n, views, crop_size, crop_size, 3] in [-1, 1], to outputs [n, …] by name.
          variables: all that it uses.
          crop_size, resize, views: see `images.preprocess` and `images.VIEWS`.
          on_bad_image: what becomes of one that cannot be read: `"error"` fails the request, `"zeros"` gives zeros, and
            there is an output `valid`, bool [n].
          assets: files to lay beside the graph.
          limits: what a request of encoded images may cost.
        """
        super().__init__()
        self._function = lambda views: function(views)  # hidden: a Keras model would be written layer by layer too
        self._to_crops: dict[str, Any] = {"crop_size": crop_size, "resize": resize, "views": views}
        self._limits = limits
        self._gives_zeros = on_bad_image == "zeros"
        self.weights = list(variables)
        self.assets = [tf.saved_model.Asset(os.fspath(asset)) for asset in assets]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, BYTES_INPUT)])
    def of_bytes(self, image_bytes: tf.Tensor) -> dict[str, tf.Tensor]:
        cropped, valid = crops.of_bytes(image_bytes, **self._to_crops, limits=self._limits)
        if not self._gives_zeros:
            return self._function(crops.require_all(cropped, valid, image_bytes))
        outputs = self._function(cropped)
        blank = {name: tf.where(_as_column(valid, value), value, 0) for name, value in outputs.items()}
        return {**blank, VALID: valid}

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.uint8, PIXELS_INPUT)])
    def of_images(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
        outputs = self._function(crops.of_images(images, **self._to_crops))
        return {**outputs, VALID: tf.ones([tf.shape(images)[0]], tf.bool)} if self._gives_zeros else outputs

    def save(self, folder: str | os.PathLike) -> None:
        tf.saved_model.save(self, os.fspath(folder), {BYTES: self.of_bytes, PIXELS: self.of_images})


def _as_column(valid, value):
    return tf.reshape(valid, [-1] + [1] * (len(value.shape) - 1))
