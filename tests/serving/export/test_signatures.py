"""A SavedModel answers as the evaluation pipeline does, whatever kind of images it is asked about."""

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from lci_tf.data import open_source, pipeline
from lci_tf.data.input_report import InputReport
from lci_tf.evaluation.finetune import classifier
from lci_tf.runs import trained
from lci_tf.serving.export import exporting

NAMES = ("cat", "dog", "Kühe und Kälber")


@pytest.fixture(scope="module")
def network():
    made = classifier.build(trained.random("alexnet_small", width=0.05), 3, "class", 32)
    norms = [m for m in made.submodules if isinstance(m, tf.keras.layers.BatchNormalization)]
    for norm in norms:
        norm.momentum = 0.0
    made(tf.random.stateless_uniform([32, 32, 32, 3], [0, 0], -1.0, 1.0), training=True)
    made.get_layer("fc3").kernel.assign(made.get_layer("fc3").kernel * 30)  # so that probabilities differ
    return made


@pytest.fixture(scope="module", params=["centre", "ten"])
def served(request, network, tmp_path_factory):
    """What others load, and the views."""
    place = tmp_path_factory.mktemp("served")
    answers = classifier.answers(network, NAMES, "class")
    folder = exporting.export_classifier(answers, network.variables, place, NAMES, 32, 48, request.param)
    assert folder == place / "1" and list(place.iterdir()) == [folder]  # nothing is left beside it
    assert (folder / "assets" / "labels.txt").read_text().splitlines() == list(NAMES)
    assert "tell 3 labels apart" in (folder / "README.md").read_text()
    return tf.saved_model.load(str(folder)), request.param


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Images to be shrunk, to be left as they are, to be enlarged; JPEGs, one with an orientation, and a PNG."""
    place, rng = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    for i, (size, ending) in enumerate([((90, 60), "jpg"), ((200, 300), "jpg"), ((48, 40), "jpg"), ((20, 30), "png")]):
        rough = Image.fromarray(rng.integers(0, 256, [6, 6, 3], np.uint8)).resize(size, Image.Resampling.BICUBIC)
        exif = Image.Exif()
        exif[0x0112] = 6
        rough.save(place / f"{i}.{ending}", quality=90, **({"exif": exif} if i == 1 else {}))
    return place


def test_bytes_are_answered_as_in_evaluation(network, served, folder):
    loaded, views = served
    source = open_source("folder", data_dirs=folder)
    batches = pipeline.evaluation_batches(source, pipeline.Crops(32, 48), 4, InputReport(source), views)
    (batch,) = batches
    expected = tf.reduce_mean(classifier.by_view(network)(batch["image"]), axis=1).numpy()
    assert expected.std(axis=0).max() > 0.01
    contents = [path.read_bytes() for path in sorted(folder.iterdir())]
    found = loaded.signatures["serving_default"](image_bytes=tf.constant(contents))
    np.testing.assert_allclose(found["probabilities"], expected, atol=1e-5)
    names = [name.encode() for name in NAMES]
    assert found["labels"].numpy().tolist() == [names] * 4
    assert found["label"].numpy().tolist() == [names[i] for i in expected.argmax(axis=1)]


def test_pixels_are_answered_like_the_file_they_are_from(served):
    loaded, _ = served
    pixels = np.random.default_rng(1).integers(0, 256, [2, 60, 70, 3], np.uint8)
    files = []
    for image in pixels:
        Image.fromarray(image).save(file := io.BytesIO(), "PNG")
        files.append(file.getvalue())
    by_pixels = loaded.signatures["images"](images=tf.constant(pixels))
    by_bytes = loaded.signatures["serving_default"](image_bytes=tf.constant(files))
    assert by_pixels.keys() == by_bytes.keys() == {"probabilities", "label", "labels"}
    np.testing.assert_allclose(by_pixels["probabilities"], by_bytes["probabilities"], atol=1e-6)


def test_what_is_no_image_is_refused(served):
    with pytest.raises(tf.errors.InvalidArgumentError, match="no readable JPEG, PNG, BMP or GIF"):
        served[0].signatures["serving_default"](image_bytes=tf.constant([b"hello"]))


def test_several_labels_have_no_single_answer(network):
    assert classifier.answers(network, NAMES, "multi-label")(tf.zeros([2, 1, 32, 32, 3])).keys() == {
        "probabilities", "labels"
    }  # fmt: skip
