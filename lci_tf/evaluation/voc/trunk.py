"""The network that all tasks build on: C up to fc7, without batch normalisation."""

import dataclasses
import functools
import math

import tensorflow as tf

from lci_tf.errors import InputError
from lci_tf.evaluation.voc import rescaling
from lci_tf.evaluation.voc.surgery import absorbed
from lci_tf.models.layers import scaled
from lci_tf.runs.trained import FeatureModel

GRID = 6  # side of AlexNet's pool5 for images of 227 pixels
UNITS = 4096
_DEVIATION, _BIAS = 0.01, 0.1  # of new fully connected layers that are not rescaled
_MEASURED = 32  # images for the statistics of untrained batch normalisation
_STRIDES = {"alexnet": 16, "alexnet_small": 16, "resnet34": 32}
_PADDINGS = {"alexnet": "valid", "alexnet_small": "same"}


@dataclasses.dataclass(frozen=True)
class Trunk:
    """The layers that a task builds on. Those of AlexNet are named conv1…conv5, fc6 and fc7.

    Attributes:
      convolutions: from images [n, height, width, 3] in [-1, 1], of any size, to a dict of maps by layer, the last of
        which is called conv5 here.
      pool5: pools conv5 to the input of fc6; None for networks without fc6.
      fc6, fc7: dense layers with bias and ReLU, or None; then global average pooling takes their place.
      grid: side of fc6's input map.
      stride: pixels of the image per pixel of conv5; None if unknown.
      origins: for each layer with weights, where they come from, in words.
    """

    convolutions: tf.keras.Model
    pool5: tf.keras.layers.Layer | None
    fc6: tf.keras.layers.Dense | None
    fc7: tf.keras.layers.Dense | None
    grid: int
    stride: int | None
    origins: dict[str, str]

    @functools.cached_property
    def layers(self) -> dict[str, tf.keras.layers.Layer]:
        """All layers with weights, from the first to the last."""
        below = [layer for layer in _flat(self.convolutions) if layer.weights]
        return {layer.name: layer for layer in [*below, *filter(None, (self.fc6, self.fc7))]}

    @property
    def last(self) -> str:
        """Name of the last map, conv5."""
        return list(self.convolutions.output)[-1]

    @property
    def units(self) -> int:
        """The length of the `vectors`."""
        return self.fc7.units if self.fc7 else self.convolutions.output[self.last].shape[-1]

    def variables(self, names=None) -> list[tf.Variable]:
        """The trainable variables of these layers, by default of all."""
        chosen = self.layers if names is None else names
        return [variable for name in chosen for variable in self.layers[name].trainable_variables]

    def conv5(self, images: tf.Tensor) -> tf.Tensor:
        return self.convolutions(images, training=False)[self.last]

    def vectors(self, pooled: tf.Tensor, dropout: float = 0.0, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Computes fc7 [n, units] from pool5, or from the output of RoI pooling, [n, grid, grid, channels].

        Without fc6, this is the mean over a map of any size.

        Args:
          dropout: share of fc6 and fc7 to drop, if there is a seed.
          seed: int64 [2], the seed of this step; None in testing.
        """
        if not self.fc6:
            return tf.reduce_mean(pooled, axis=[1, 2])
        x = tf.reshape(pooled, [-1, self.grid * self.grid * pooled.shape[-1]])
        for number, layer in enumerate((self.fc6, self.fc7)):
            x = layer(x)
            if dropout and seed is not None:
                x = tf.nn.experimental.stateless_dropout(x, dropout, seed=seed + number)
        return x

    def whole(self, images: tf.Tensor, dropout: float = 0.0, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Computes fc7 [n, units] from images of the size for which fc6 is made; see `vectors`."""
        conv5 = self.conv5(images)
        return self.vectors(self.pool5(conv5) if self.pool5 else conv5, dropout, seed)

    def describe(self) -> str:
        """Where the weights of the layers come from, in lines."""
        lines = []
        for origin, layers in _runs(self.origins):
            first, *others = layers
            names = f"{first} … {others[-1]}" if others else first
            lines.append(f"    {names:28s} {origin}")
        return "\n".join(lines)


def build(
    model: FeatureModel,
    size: int | None = None,
    images: tf.Tensor | None = None,
    rescale: bool = True,
    seed: int = 0,
    take_fully_connected: bool = True,
) -> Trunk:
    """Builds the trunk from a network.

    Batch normalisation is absorbed. AlexNet gets its pool5 back, which the paper removes for pre-training only. fc6 and
    fc7 are those of C if their input has the right size, or else new.

    Args:
      size: side of the images for which fc6 is made; None for the map size of C's fc6, or 6×6 without one.
      images: up to `rescaling.IMAGES` images of this size, float32 [n, size, size, 3] in [-1, 1], for rescaling and
        untrained batch normalisation. If None, nothing is rescaled.
      rescale: whether to apply `rescaling`, which is only for AlexNet.
      seed: random seed for new weights.
      take_fully_connected: whether to use fc6 and fc7 of C if they fit.
    """
    if not isinstance(model.maps, tf.keras.Model):
        raise InputError(f"--model={model.origin['model']}: a SavedModel cannot be trained on; give a Keras model")
    _check_size(model, size)
    tf.keras.utils.set_random_seed(seed)
    is_random, backbone = "random" in model.origin, model.origin.get("backbone")
    is_alexnet = backbone in _PADDINGS
    if is_random and images is not None and not (is_alexnet and rescale):
        _calibrate_batch_norm(model.maps, images[:_MEASURED])
    network = absorbed(model.classifier or model.maps)
    convolutions = network.get_layer("features") if model.classifier else network
    taken = "new" if is_random else _place(model.origin)
    origins = {layer.name: taken for layer in _flat(convolutions) if layer.weights}
    trunk = Trunk(convolutions, None, None, None, GRID, _STRIDES.get(str(backbone)), origins)
    if is_alexnet:
        head = network if model.classifier and take_fully_connected else None
        trunk = _with_fully_connected(trunk, head, model, size, taken)
    if images is not None and rescale and is_alexnet:
        new = [name for name, origin in trunk.origins.items() if origin.startswith("new")]
        rescaling.rescale(trunk, images, new, seed)
    return trunk


def require_any_size(model: FeatureModel, task: str) -> None:
    """Refuses a network for images of one size, where a task shows it whole photographs."""
    if isinstance(model.maps, tf.keras.Model) and None not in (sides := model.maps.input_shape[1:3]):
        raise InputError(f"--model={model.origin['model']}: takes images of {sides[0]}×{sides[1]} pixels only; "
                         f"--task={task} needs a network that takes any size")  # fmt: skip


def _check_size(model, size):
    """Refuses a network that takes images of one size, but not of this."""
    sides = model.maps.input_shape[1:3]
    if size and None not in sides and sides != (size, size):
        raise InputError(f"--crop_size={size}: --model={model.origin['model']} takes images of {sides[0]}×{sides[1]} "
                         "pixels only")  # fmt: skip


def _with_fully_connected(trunk, network, model, size, taken):
    """Adds pool5, fc6 and fc7 to the trunk of an AlexNet."""
    pool5 = tf.keras.layers.MaxPooling2D(3, 2, _PADDINGS[model.origin["backbone"]], name="pool5")
    channels, units = trunk.convolutions.output["conv5"].shape[-1], scaled(UNITS, model.origin["width"])
    has = math.isqrt(network.get_layer("fc1").kernel.shape[0] // channels) if network else None
    if size is None:
        grid = has or GRID
    else:
        shape = trunk.convolutions.compute_output_shape([1, size, size, 3])["conv5"]
        grid = pool5.compute_output_shape(shape)[1]
        if not grid:
            raise InputError(f"--crop_size={size}: too small for pool5; give at least 67")
    why = "" if "random" in model.origin or not has else f", since C's takes maps of {has}×{has}, not {grid}×{grid}"
    fits = grid == has and "random" not in model.origin
    made = []
    for name, old, inputs in (("fc6", "fc1", grid * grid * channels), ("fc7", "fc2", units)):
        initializer = tf.keras.initializers.RandomNormal(stddev=_DEVIATION)
        layer = tf.keras.layers.Dense(
            units,
            "relu",
            kernel_initializer=initializer,
            name=name,
            bias_initializer=tf.keras.initializers.Constant(_BIAS),
        )
        layer(tf.keras.Input([inputs]))  # creates its weights, with its name
        if fits:
            layer.set_weights(network.get_layer(old).get_weights())
        made.append(layer)
    origins = {**trunk.origins, "fc6": taken if fits else f"new{why}", "fc7": taken if fits else "new"}
    return dataclasses.replace(trunk, pool5=pool5, fc6=made[0], fc7=made[1], grid=grid, origins=origins)


def _calibrate_batch_norm(network, images):
    """Sets the batch-norm statistics of an untrained network to those of some images."""
    norms = [module for module in network.submodules if isinstance(module, tf.keras.layers.BatchNormalization)]
    before = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    network(images, training=True)
    for norm, momentum in zip(norms, before, strict=True):
        norm.momentum = momentum


def _flat(network):
    """The layers of a network, including those of nested networks."""
    for layer in network.layers:
        if isinstance(layer, tf.keras.Model):
            yield from _flat(layer)
        else:
            yield layer


def _place(origin):
    if "step" in origin:
        return f"step {origin['step']:,} of {origin['run']}"
    return origin.get("run") or origin["model"]


def _runs(origins):
    """Pairs (origin, layers), with a pair for each run of neighbouring layers of the same origin."""
    groups: list[tuple[str, list[str]]] = []
    for layer, origin in origins.items():
        if groups and groups[-1][0] == origin:
            groups[-1][1].append(layer)
        else:
            groups.append((origin, [layer]))
    return groups
