"""AlexNet as C: two streams as in the original, batch normalisation for local response normalisation, no dropout."""

import tensorflow as tf

from lci_tf.models.layers import batch_norm, rescaling, scaled

# Of the sizes of image for which `features(padding="valid")` has any conv5 to give, the smallest.
SMALLEST_VALID = 35


def features(padding: str, width: float = 1.0, sync_bn: bool = False) -> tf.keras.Model:
    """Images [n, height, width, 3] in [-1, 1] to a dict of feature maps conv1…conv5.

    There is no pool5: the paper removes it for small images, and in pre-training on ImageNet too, where conv5 is
    6×6×256 then, of 128 pixels.

    Args:
      padding: of conv1 and of the pools, "same" for small images or "valid" as on ImageNet; elsewhere it is "same".
      width: multiplies all filters.
      sync_bn: batch normalisation over all replicas.
    """
    maps = {}

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
    """conv5 to float32 logits [n, classes], through fc1 and fc2."""

    def dense(units, **options):
        # An initialiser that several layers share gives them equal weights.
        initializer = tf.keras.initializers.TruncatedNormal(stddev=0.005)
        return tf.keras.layers.Dense(units, kernel_initializer=initializer, **options)

    x = tf.keras.layers.Flatten(name="flatten")(conv5)
    for name in ("fc1", "fc2"):
        x = dense(scaled(4096, width), use_bias=False, name=name)(x)
        x = tf.keras.layers.ReLU(name=f"{name}_relu")(batch_norm(f"{name}_bn", sync_bn)(x))
    return dense(classes, dtype="float32", name="fc3")(x)


@tf.keras.utils.register_keras_serializable("lci_tf")  # so that saved models are loaded without naming it
class TwoStreamConv2D(tf.keras.layers.Conv2D):
    """A convolution whose two halves of filters see a half of the input channels each.

    Its kernel is [height, width, channels / 2, filters], as with `groups=2`: whose gradients do not exist on a CPU.
    """

    def build(self, input_shape):
        channels = input_shape[-1]
        super().build([*input_shape[:-1], channels // 2])
        self.input_spec = tf.keras.layers.InputSpec(ndim=4, axes={-1: channels})

    def convolution_op(self, inputs, kernel):
        convolve = super().convolution_op
        streams = zip(tf.split(inputs, 2, axis=-1), tf.split(kernel, 2, axis=-1), strict=True)
        return tf.concat([convolve(x, k) for x, k in streams], axis=-1)
