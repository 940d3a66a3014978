"""Writes a trained C or a classifier as a versioned SavedModel: complete, verified, never over an existing version."""

import dataclasses
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import tensorflow as tf

from lci_tf import models
from lci_tf.errors import InputError
from lci_tf.imaging import images
from lci_tf.runs import export_folder
from lci_tf.runs.trained import FeatureModel
from lci_tf.serving.export import model_card, warmup
from lci_tf.serving.export.crops import DEFAULT_LIMITS, Limits
from lci_tf.serving.export.signatures import Served
from lci_tf.serving.served_features import EMBEDDING, ServedFeatures

LABELS = "transformations.txt"
_SAMPLE = 4  # images with which an export is checked


def export(
    model: FeatureModel,
    export_dir: pathlib.Path,
    version: int | None = None,
    features: Sequence[str] = (EMBEDDING,),
    on_bad_image: str = "error",
    half: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> pathlib.Path:
    """Writes `export_dir/VERSION/`, which appears whole or not at all.

    Args:
      model: of a run.
      version: by default one more than the highest there is.
      features: which to give, see `features.names`.
      on_bad_image: see `ServedFeatures`.
      half: store weights in float16; computation stays in float32.
      limits: what a request of encoded images may cost.

    Returns:
      the version's folder.
    """
    served_model = halved(model) if half else model
    with export_folder.new_version(export_dir, version) as folder:
        with tempfile.TemporaryDirectory() as beside:
            settings = pathlib.Path(beside, "run.flags")
            shutil.copy(pathlib.Path(model.origin["run"], "run.flags"), settings)
            labels = _write_names(pathlib.Path(beside, LABELS), model.labels)
            ServedFeatures(served_model, features, on_bad_image, [labels, settings], limits).save(folder)
        signatures = _finish(folder, model.crop_size)
        _check(signatures, served_model)
        (folder / "README.md").write_text(model_card.write(signatures, model, on_bad_image, half, limits))
    return export_folder.folder_of(export_dir, version)


def export_classifier(
    answers: Callable[[tf.Tensor], dict[str, tf.Tensor]],
    variables: Iterable[tf.Variable],
    export_dir: pathlib.Path,
    label_names: Sequence[str],
    crop_size: int,
    resize: float,
    views: str = "centre",
) -> pathlib.Path:
    """Writes a fine-tuned classifier as the next version, with its labels, warm-up requests and a README.

    Args:
      answers, variables, crop_size, resize, views: see `signatures.Served`.

    Returns:
      the version's folder.
    """
    with export_folder.new_version(export_dir) as folder:
        with tempfile.TemporaryDirectory() as beside:
            names = _write_names(pathlib.Path(beside, "labels.txt"), label_names)
            Served(answers, variables, crop_size, resize, views, assets=[names]).save(folder)
        signatures = _finish(folder, crop_size)
        (folder / "README.md").write_text(model_card.of_classifier(signatures, label_names, crop_size, resize, views))
    return export_folder.folder_of(export_dir)


def _write_names(path, names):
    path.write_text("".join(f"{name}\n" for name in names))
    return path


def _finish(folder, crop_size):
    """Adds warm-up requests, and gives the signatures as they have been written."""
    warmup.write(folder, _sample(crop_size))
    return tf.saved_model.load(str(folder)).signatures


def halved(model: FeatureModel) -> FeatureModel:
    """The same C with weights in float16; batch normalisation keeps float32."""
    tf.keras.mixed_precision.set_global_policy(_HalfWeights("float32"))
    try:
        settings = model.settings
        classifier = models.classifier(settings.backbone, len(model.labels), settings.crop_size, settings.width)
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    for to, of in zip(classifier.weights, model.classifier.weights, strict=True):
        to.assign(tf.cast(of, to.dtype))
    return dataclasses.replace(model, classifier=classifier, maps=classifier.get_layer("features"))


class _HalfWeights(tf.keras.mixed_precision.Policy):
    """The reverse of mixed precision: weights are stored in float16, and computation stays in float32."""

    compute_dtype = property(lambda self: "float32")
    variable_dtype = property(lambda self: "float16")


def what_half_costs(model: FeatureModel, folder: pathlib.Path) -> str:
    """The size of an export with float16 weights, and how far its embeddings are from the network's own."""
    crops = images.scale(_sample_pixels(model.crop_size))
    ours, theirs = (_embedding(m, crops) for m in (model, halved(model)))
    stored = sum(path.stat().st_size for path in (folder / "variables").iterdir())
    whole = sum(weight.shape.num_elements() * weight.dtype.size for weight in model.classifier.weights)
    return (
        f"Half       {stored / 2**20:.1f} MB of weights instead of {whole / 2**20:.1f} MB; embeddings, of length 1, "
        f"differ by at most {float(tf.reduce_max(tf.norm(ours - theirs, axis=1))):.1g}"
    )


def _embedding(model, crops):
    maps = model.maps(crops, training=False)["conv5"]
    return tf.math.l2_normalize(tf.reduce_mean(maps, [1, 2]), axis=1)


def export_keras(model: FeatureModel, export_dir: pathlib.Path) -> pathlib.Path:
    """Writes C itself, images in [-1, 1] to maps and logits, as `export_dir/classifier.keras`."""
    export_dir.mkdir(parents=True, exist_ok=True)
    place = export_dir / "classifier.keras"
    if place.exists():
        raise InputError(f"{place}: exists already; choose another --export_dir")
    with export_folder.alone_in(export_dir), tempfile.TemporaryDirectory(prefix=".keras-", dir=export_dir) as beside:
        written = pathlib.Path(beside, place.name)
        model.classifier.save(written)
        written.rename(place)
    return place


def _sample(crop_size):
    """JPEGs, strings [n]."""
    return tf.stack([tf.io.encode_jpeg(image) for image in tf.unstack(_sample_pixels(crop_size))])


def _sample_pixels(crop_size):
    """Smooth noise, uint8 [n, crop_size, crop_size, 3]."""
    rough = tf.random.stateless_uniform([_SAMPLE, 4, 4, 3], [0, 0], 0.0, 255.0)
    return tf.cast(tf.image.resize(rough, [crop_size, crop_size]), tf.uint8)


def _check(written, model):
    """That what was written gives what the network gives."""
    sample = _sample(model.crop_size)
    pixels = tf.stack([images.pixels(content) for content in tf.unstack(sample)])
    expected = tf.nn.softmax(model.classifier(images.scale(pixels), training=False)["logits"])
    for name, given in (("serving_default", {"image_bytes": sample}), ("images", {"images": pixels})):
        found = written[name](**given)["transformation"]
        if not np.allclose(found, expected, atol=1e-4):
            raise RuntimeError(f"the signature {name} does not give what the network gives")
