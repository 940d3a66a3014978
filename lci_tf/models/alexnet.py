"""AlexNet as C: with two streams as in the original, but batch normalisation instead of LRN, and no dropout."""

import functools

import tensorflow as tf

from lci_tf.models.backbone import Backbone
from lci_tf.models.layers import batch_norm, rescaling, scaled

# Side of the smallest images for which `features(padding="valid")` has a conv5 that is not empty.
SMALLEST_VALID = 35


def features(padding: str, width: float = 1.0, sync_bn: bool = False) -> tf.keras.Model:
    """Builds the convolutional part, from images [n, height, width, 3] in [-1, 1] to a dict of maps conv1…conv5.

    There is no pool5: the paper removes it for small images, and also for pre-training on ImageNet, where conv5 of a
    128-pixel crop is then 6×6×256.

    Args:
      padding: padding of conv1 and the pools: "same" for small images, "valid" as on ImageNet. The rest has "same".
      width: factor for the numbers of filters.
      sync_bn: compute batch-norm statistics over all replicas.
    """
    maps: dict[str, tf.Tensor] = {}

    def convolve(layer, filters, kernel_size, inputs, **options):
        name = f"conv{len(maps) + 1}"
        initializer = tf.keras.initializers.TruncatedNormal(stddev=0.01)
        options = {"padding": "same", "use_bias": False, "kernel_initializer": initializer, **options}
        x = layer(scaled(filters, width), kernel_size, **options, name=name)(inputs)
        x = batch_norm(f"{name}_bn", sync_bn)(x)
        maps[name] = tf.keras.layers.ReLU(name=f"{name}_relu")(x)
        return maps[name]

    conv, two_streams = tf.keras.layers.Conv2D, TwoStreamConv2D
    images = tf.keras.Input([None, None, 3], name="images")
    x = rescaling("rescaling")(images)
    x = convolve(conv, 96, 11, x, strides=4, padding=padding)
    x = tf.keras.layers.MaxPooling2D(3, 2, padding, name="pool1")(x)
    x = convolve(two_streams, 256, 5, x)
    x = tf.keras.layers.MaxPooling2D(3, 2, padding, name="pool2")(x)
    x = convolve(conv, 384, 3, x)
    x = convolve(two_streams, 384, 3, x)
    convolve(two_streams, 256, 3, x)
    return tf.keras.Model(images, maps, name="features")


def head(conv5: tf.Tensor, classes: int, width: float = 1.0, sync_bn: bool = False) -> tf.Tensor:
    """Adds fc1, fc2 and fc3: from conv5 to float32 logits [n, classes]."""

    def dense(units, **options):
        # A new one each time: layers that share an initialiser get equal weights.
        initializer = tf.keras.initializers.TruncatedNormal(stddev=0.005)
        return tf.keras.layers.Dense(units, kernel_initializer=initializer, **options)

    x = tf.keras.layers.Flatten(name="flatten")(conv5)
    for name in ("fc1", "fc2"):
        x = dense(scaled(4096, width), use_bias=False, name=name)(x)
        x = tf.keras.layers.ReLU(name=f"{name}_relu")(batch_norm(f"{name}_bn", sync_bn)(x))
    return dense(classes, dtype="float32", name="fc3")(x)


@tf.keras.utils.register_keras_serializable("lci_tf")  # so that saved models can be loaded without listing it
class TwoStreamConv2D(tf.keras.layers.Conv2D):
    """A convolution in two streams: each half of the filters sees one half of the input channels.

    The kernel is [height, width, channels / 2, filters], as with `groups=2`, which has no gradients on CPUs.
    """

    def build(self, input_shape: tf.TensorShape) -> None:
        channels = input_shape[-1]
        super().build([*input_shape[:-1], channels // 2])
        self.input_spec = tf.keras.layers.InputSpec(ndim=4, axes={-1: channels})

    def convolution_op(self, inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        convolve = super().convolution_op
        streams = zip(tf.split(inputs, 2, axis=-1), tf.split(kernel, 2, axis=-1), strict=True)
        return tf.concat([convolve(x, k) for x, k in streams], axis=-1)


SMALL = Backbone(functools.partial(features, "same"), head)
WHOLE = Backbone(functools.partial(features, "valid"), head, SMALLEST_VALID)
