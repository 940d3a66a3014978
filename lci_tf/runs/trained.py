"""Loads networks for their feature maps: C of a run, C with random weights, or any SavedModel or Keras model."""

import dataclasses
import hashlib
import os
import pathlib
import zipfile
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from lci_tf import models
from lci_tf.config.settings import Settings
from lci_tf.errors import InputError
from lci_tf.files import absolute
from lci_tf.imaging import images
from lci_tf.runs import Run, checkpoints, keras_files

BATCHES_SEEN = 150  # enough for moving averages of momentum 0.975 to forget their initial values
# Ranges of pixel values that a model from elsewhere may expect -> (factor, offset) to get there from [-1, 1].
PIXELS = {"-1..1": (1.0, 0.0), "0..1": (0.5, 0.5), "0..255": (127.5, 127.5)}


@dataclasses.dataclass(frozen=True)
class FeatureModel:
    """A network that computes feature maps.

    Attributes:
      maps: function of images, float32 [n, height, width, 3] in [-1, 1], and `training`, to a dict of maps
        [n, h, w, channels] by layer. A Keras model, except for SavedModels that are not Keras's.
      layers: names of the maps, from the first to the last.
      origin: identifies the network in results, in plain values.
      crop_size, resize: those of its training, in pixels, if known; see `images.preprocess`.
      classifier: all of C, if the network is a C.
      labels: names of the classes that C tells apart.
      settings: settings of its pre-training.
    """

    maps: Callable[..., dict[str, tf.Tensor]]
    layers: tuple[str, ...]
    origin: dict[str, Any]
    crop_size: int | None = None
    resize: int | None = None
    classifier: tf.keras.Model | None = None
    labels: tuple[str, ...] = ()
    settings: Settings | None = None

    def only(self, layers: Iterable[str], flag: str = "--layers") -> "FeatureModel":
        """The network with only these layers, so that later ones are not computed; `flag` is for messages."""
        layers = tuple(layers)
        for layer in layers:
            if layer not in self.layers:
                raise InputError(f"{flag}={layer}: no such layer; there are {', '.join(self.layers)}")
        if isinstance(self.maps, tf.keras.Model):
            maps = tf.keras.Model(self.maps.input, {layer: self.maps.output[layer] for layer in layers})
        else:
            maps = _Chosen(self.maps, layers)
        return dataclasses.replace(self, maps=maps, layers=layers)


def from_run(path: str | os.PathLike, which: str = "latest", flag: str = "--run_dir") -> FeatureModel:
    """Loads C from a run.

    Args:
      path: a run, or one of its checkpoints.
      which: the `"latest"` or the `"best"` checkpoint, if `path` is a run.
      flag: the flag that gives the path, for messages.
    """
    prefix = checkpoints.find_checkpoint(path, flag, which)
    model = _of_run(run_of(prefix, flag), flag)
    checkpoints.load_weights(prefix, flag, classifier=model.classifier)
    step = int(prefix.rpartition("-")[2])
    return dataclasses.replace(
        model, origin={**model.origin, "checkpoint": prefix, "step": step, "digest": checkpoints.digest(prefix)}
    )


def random_like(path: str | os.PathLike, seed: int = 0, flag: str = "--run_dir") -> FeatureModel:
    """C of a run with random weights; its batch normalisation still needs `calibrate_batch_norm`."""
    tf.keras.utils.set_random_seed(seed)
    place = pathlib.Path(absolute(path))
    run = Run(place) if (place / "run.flags").is_file() else run_of(checkpoints.find_checkpoint(path, flag), flag)
    model = _of_run(run, flag)
    return dataclasses.replace(model, origin={**model.origin, "random": True, "seed": seed})


def random(backbone: str, width: float = 1.0, seed: int = 0) -> FeatureModel:
    """A backbone with random weights; its batch normalisation still needs `calibrate_batch_norm`."""
    tf.keras.utils.set_random_seed(seed)
    maps = models.find_backbone(backbone).features(width=width)
    origin = {"backbone": backbone, "width": width, "random": True, "seed": seed}
    return FeatureModel(maps, tuple(maps.output), origin)


def from_file(
    path: str | os.PathLike,
    layers: Iterable[str] = (),
    pixels: str = "-1..1",
    flag: str = "--model",
    layers_flag: str = "--layers",
    trusted: bool = False,
) -> FeatureModel:
    """Loads a network from elsewhere.

    Args:
      path: a Keras model (`.keras`, `.h5`, or Keras's SavedModel), or a SavedModel with a signature `images` or
        `serving_default` from a batch of images to maps, or to vectors, which become maps of one pixel.
      layers: names of maps: outputs, or for Keras models also layers. By default all outputs.
      pixels: the range of pixel values that the network expects, a name in `PIXELS`; ignored for uint8 signatures.
      flag, layers_flag: the flags that give path and layers, for messages.
      trusted: whether it may contain code, see `keras_files`. A SavedModel that is not of Keras is a graph of
        TensorFlow's operations, some of which write files, whether it is trusted or not.
    """
    place, layers, what = pathlib.Path(absolute(path)), tuple(layers), f"{flag}={path}"
    if not place.exists():
        raise InputError(f"{what}: no such file or folder")
    try:
        is_keras = keras_files.is_keras(place)
        loaded = keras_files.load(place, trusted, what) if is_keras else tf.saved_model.load(str(place))
    except InputError:
        raise
    except (OSError, ValueError, TypeError, KeyError, zipfile.BadZipFile, tf.errors.OpError) as error:
        why = str(error).strip().splitlines()[0]
        raise InputError(f"{what}: cannot be read as a Keras model or a SavedModel ({why})") from None
    origin = {"model": str(place), "digest": _digest(place), "pixels": pixels}
    if isinstance(loaded, tf.keras.Model):
        return _of_keras(loaded, layers, pixels, origin, what, layers_flag)
    return _of_saved_model(loaded, layers, pixels, origin, what, layers_flag)


def calibrate_batch_norm(model: FeatureModel, batches: Iterable[tf.Tensor]) -> None:
    """Estimates the batch-norm statistics of an untrained network, without which it is worse than it need be.

    Args:
      model: the network, whose moving averages are updated.
      batches: images [n, height, width, 3] in [-1, 1]; `BATCHES_SEEN` batches are enough.
    """
    run_in_training_mode = tf.function(lambda images: model.maps(images, training=True))
    for batch in batches:
        run_in_training_mode(batch)


def run_of(prefix: str, flag: str = "--run_dir") -> Run:
    """The run that a checkpoint belongs to."""
    run = Run(pathlib.Path(prefix).parents[1])
    if not (run.path / "run.flags").is_file():
        raise InputError(f"{flag}={prefix}: is not in a run directory, whose run.flags would describe the network")
    return run


def _of_run(run, flag):
    settings, facts = run.settings(), run.facts()
    if "C" not in facts["parameters"]:
        raise InputError(f"{flag}={run.path}: has no C, since it trained F and D alone")
    labels = tuple(facts["labels"])
    classifier = models.classifier(settings.backbone, len(labels), settings.crop_size, settings.width)
    maps = classifier.get_layer("features")
    return FeatureModel(
        maps=maps,
        layers=tuple(maps.output),
        origin={"run": str(run.path), "backbone": settings.backbone, "width": settings.width},
        crop_size=settings.crop_size,
        resize=settings.resize,
        classifier=classifier,
        labels=labels,
        settings=settings,
    )


def _of_keras(model, layers, pixels, origin, what, layers_flag):
    if len(model.inputs) != 1 or len(model.inputs[0].shape) != 4:
        raise InputError(f"{what}: must take one batch of images as its only input")
    if isinstance(model.output, dict):
        outputs = model.output
    else:
        outputs = dict(zip(model.output_names, tf.nest.flatten(model.output), strict=True))
    named = {**{layer.name: layer for layer in model.layers}, **outputs}
    for layer in layers:
        if layer not in named:
            raise InputError(f"{layers_flag}={layer}: no such layer; {what} has {', '.join(named)}")
    if layers:
        outputs = {layer: outputs[layer] if layer in outputs else named[layer].output for layer in layers}
    inner = tf.keras.Model(model.inputs, outputs)
    height, width = model.inputs[0].shape[1:3]
    inputs = tf.keras.Input([height, width, 3], name="images")
    maps = {name: _as_map(value) for name, value in inner(tf.keras.layers.Rescaling(*PIXELS[pixels])(inputs)).items()}
    return FeatureModel(tf.keras.Model(inputs, maps), tuple(maps), origin, crop_size=height)


def _of_saved_model(loaded, layers, pixels, origin, what, layers_flag):
    signature = next((loaded.signatures[name] for name in ("images", "serving_default") if name in loaded.signatures),
                     None)  # fmt: skip
    if signature is None:
        raise InputError(f"{what}: has no signature named images or serving_default")
    (_, inputs) = signature.structured_input_signature
    if len(inputs) != 1 or next(iter(inputs.values())).dtype == tf.string:
        raise InputError(f"{what}: its signature must take one batch of images as its only input")
    outputs = signature.structured_outputs.items()
    wanted = [name for name, spec in outputs if spec.shape.rank in (2, 4) and spec.dtype.is_floating]
    for layer in layers:
        if layer not in wanted:
            raise InputError(f"{layers_flag}={layer}: no such output; {what} has {', '.join(wanted)}")
    layers = layers or tuple(sorted(wanted))
    return FeatureModel(_Signature(loaded, signature, layers, pixels), layers, origin)


class _Signature(tf.Module):
    """Wraps a signature of a SavedModel as a network."""

    def __init__(self, loaded, signature, layers, pixels):
        super().__init__()
        self._loaded, self._signature, self._layers, self._pixels = loaded, signature, layers, pixels
        ((self._input, self._spec),) = signature.structured_input_signature[1].items()

    def __call__(self, x, training=False):
        if self._spec.dtype == tf.uint8:
            x = images.unscale(x)
        else:
            factor, offset = PIXELS[self._pixels]
            x = tf.cast(x * factor + offset, self._spec.dtype)
        outputs = self._signature(**{self._input: x})
        return {layer: _as_map(tf.cast(outputs[layer], tf.float32)) for layer in self._layers}


class _Chosen(tf.Module):
    """Wraps a network that is not a Keras model, keeping only some of its maps."""

    def __init__(self, maps, layers):
        super().__init__()
        self._maps, self._layers = maps, layers

    def __call__(self, x, training=False):
        made = self._maps(x, training=training)
        return {layer: made[layer] for layer in self._layers}


def _as_map(value):
    return value if len(value.shape) == 4 else value[:, tf.newaxis, tf.newaxis, :]


def _digest(place):
    """16 hexadecimal digits for a file, or for all files below a folder."""
    total = hashlib.sha256()
    for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
        if path.is_file():
            total.update(path.read_bytes())
    return total.hexdigest()[:16]
