"""ResNet-34 as C (from the paper's supplement), built from keras-cv's backbone."""

import contextlib
import io

import tensorflow as tf

from lci_tf.models.backbone import Backbone
from lci_tf.models.layers import batch_norm, rescaling, scaled


def features(width: float = 1.0, sync_bn: bool = False) -> tf.keras.Model:
    """Builds the convolutional part, from images [n, height, width, 3] in [-1, 1] to a dict of maps conv1…conv5.

    conv1 is the stem, conv2…conv5 are the four stages, all after batch normalisation and ReLU, as for AlexNet.
    """
    # keras-cv takes seconds to import, and a package that it needs prints the name of its backend.
    with contextlib.redirect_stdout(io.StringIO()):
        import keras_cv
    backbone = keras_cv.models.ResNetBackbone(
        stackwise_filters=[64, 128, 256, 512],
        stackwise_blocks=[3, 4, 6, 3],
        stackwise_strides=[1, 2, 2, 2],
        include_rescaling=True,
        input_tensor=tf.keras.Input([None, None, 3], name="images"),
        block_type="basic_block",
    )
    names = {"conv1": "conv1_relu"} | {f"conv{i}": backbone.pyramid_level_inputs[f"P{i}"] for i in range(2, 6)}
    maps = {name: backbone.get_layer(layer).output for name, layer in names.items()}

    # The backbone has no arguments for width, batch normalisation and layer names.
    def as_in_alexnet(layer):
        config = layer.get_config()
        name = config["name"]
        for stage in range(4):
            name = name.replace(f"v2_stack_{stage}", f"conv{stage + 2}")
        if isinstance(layer, tf.keras.layers.Rescaling):
            return rescaling("rescaling")
        if isinstance(layer, tf.keras.layers.BatchNormalization):
            return batch_norm(name, sync_bn)
        if isinstance(layer, tf.keras.layers.Conv2D):
            config["filters"] = scaled(config["filters"], width)
        return layer.from_config({**config, "name": name})

    model = tf.keras.Model(backbone.input, maps, name="features")
    return tf.keras.models.clone_model(model, clone_function=as_in_alexnet)


def head(conv5: tf.Tensor, classes: int, width: float = 1.0, sync_bn: bool = False) -> tf.Tensor:
    """Adds global average pooling and one dense layer: from conv5 to float32 logits [n, classes]."""
    initializer = tf.keras.initializers.TruncatedNormal(stddev=0.005)
    x = tf.keras.layers.GlobalAveragePooling2D(dtype="float32", name="pool5")(conv5)
    return tf.keras.layers.Dense(classes, kernel_initializer=initializer, dtype="float32", name="fc")(x)


RESNET34 = Backbone(features, head)
