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
    x = convolve(BlockConv2D, 96, 11, x, strides=4, padding=padding)
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


@tf.keras.utils.register_keras_serializable("lci_tf")
class BlockConv2D(tf.keras.layers.Conv2D):
    """A convolution with large strides whose gradient at its input is quick in training.

    F learns from C's gradient at the images. Libraries compute it slowly for three channels. But a convolution with
    strides of s pixels is one with strides of 1 over blocks of s × s pixels, whose s² · 3 channels are enough.
    """

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        is_usual = len({*self.strides}) == len({*self.kernel_size}) == 1 == max(self.dilation_rate)
        if not training or not is_usual:
            return super().call(inputs)
        convolve = super().convolution_op
        strides, padding = [1, *self.strides, 1], self.padding.upper()

        @tf.custom_gradient
        def convolved(images, kernel):
            def gradients(upstream):
                at_kernel = tf.raw_ops.Conv2DBackpropFilter(
                    input=images, filter_sizes=kernel.shape, out_backprop=upstream, strides=strides, padding=padding
                )
                return _at_images(upstream, kernel, tf.shape(images), self.strides[0], padding), at_kernel

            return convolve(images, kernel), gradients

        outputs = convolved(inputs, tf.convert_to_tensor(self.kernel))
        return self.activation(tf.nn.bias_add(outputs, self.bias) if self.use_bias else outputs)


def _at_images(upstream, kernel, shape, stride, padding):
    """The gradient at the images, of this shape, of a convolution with equal strides and a square kernel."""
    side, _, channels, filters = kernel.shape
    blocks = -(-side // stride)  # along each side of the kernel, which is padded to whole blocks
    padded = tf.pad(kernel, [[0, blocks * stride - side]] * 2 + [[0, 0]] * 2)
    split = tf.reshape(padded, [blocks, stride, blocks, stride, channels, filters])
    of_blocks = tf.reshape(tf.transpose(split, [0, 2, 1, 3, 4, 5]), [blocks, blocks, stride**2 * channels, filters])
    positions = tf.shape(upstream)[1:3]
    in_blocks = [shape[0], *tf.unstack(positions + blocks - 1), stride**2 * channels]
    at_blocks = tf.nn.conv2d_transpose(upstream, of_blocks, in_blocks, 1, "VALID")
    at_pixels = tf.nn.depth_to_space(at_blocks, stride)
    reach = (positions - 1) * stride + side
    first = tf.maximum(reach - shape[1:3], 0) // 2 if padding == "SAME" else tf.zeros([2], tf.int32)
    unseen = tf.maximum(first + shape[1:3] - (positions + blocks - 1) * stride, 0)  # below and on the right, if VALID
    at_pixels = tf.pad(at_pixels, [[0, 0], [0, unseen[0]], [0, unseen[1]], [0, 0]])
    return tf.slice(at_pixels, [0, first[0], first[1], 0], shape)


SMALL = Backbone(functools.partial(features, "same"), head)
WHOLE = Backbone(functools.partial(features, "valid"), head, SMALLEST_VALID)
