import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from sklearn.neighbors import NearestNeighbors

from lci_tf import data
from lci_tf.data import share
from lci_tf.data.input_report import InputReport
from lci_tf.data.pipeline import Crops
from lci_tf.data.source import PixelArray
from lci_tf.evaluation.neighbours.atlas import atlas, on_a_plane


def channels(images, training):
    """A network whose maps are the pixels, and their squares."""
    return {"conv1": images, "conv2": tf.square(images)}


def test_features_are_means_of_maps_and_thumbnails_the_images(tmp_path):
    stored = [np.random.default_rng(i).integers(60 * i, 60 * i + 60, [12, 12, 3], np.uint8) for i in range(4)]
    for pixels, name in zip(stored, ("cat/0", "cat/1", "dog/0", "dog/1"), strict=True):
        (tmp_path / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / "images" / f"{name}.png")
    (tmp_path / "images" / "cat" / "0.png").write_bytes(b"\x89PNG\r\n\x1a\n")  # and so only three remain
    source = data.open_source("folder", None, tmp_path / "images")
    found = atlas(channels, source, Crops(8, 8), InputReport(source, max_bad_images=1), tmp_path)
    assert {layer: rows.shape for layer, rows in found.features.items()} == {"conv1": (3, 3), "conv2": (3, 3)}
    means = np.array([pixels.mean((0, 1)) / 127.5 - 1 for pixels in stored[1:]])  # 0.5 apart from one to the next
    np.testing.assert_allclose(found.features["conv1"], means, atol=0.1)
    np.testing.assert_allclose(found.features["conv2"], means**2, atol=0.1)
    assert found.thumbnails.shape == (3, 64, 64, 3) and found.labels.tolist() == [0, 1, 1]
    assert found.facts["class"] == ["cat", "dog", "dog"]
    assert [place.rpartition("images/")[2] for place in found.facts["image"]] == ["cat/1.png", "dog/0.png", "dog/1.png"]


@pytest.mark.parametrize("labels, kind, facts", [
    (None, "none", {}),
    (np.array([[1, 0], [-1, 1]], np.int8), "multi-label", {"Smiling": ["yes", "unknown"], "Hat": ["no", "yes"]}),
])  # fmt: skip
def test_labels_in_words(labels, kind, facts, tmp_path):
    pixels = np.zeros([2, 8, 8, 3], np.uint8)
    names = ("Smiling", "Hat") if facts else ()
    source = PixelArray(name="a", split="b", count=2, label_kind=kind, label_names=names, pixels=pixels, labels=labels)
    found = atlas(channels, source, Crops(8, 8), InputReport(source), tmp_path)
    assert found.facts == {**facts, "image": ["image 0 of a b", "image 1 of a b"]}


def test_similar_images_are_close_on_the_map(refusal):
    """Three clouds, in directions that only the cosine tells, with features of very different sizes."""
    rng = np.random.default_rng(0)
    kinds = np.repeat(np.arange(3), 20)
    directions = np.eye(3, 12)[kinds] + 0.05 * rng.normal(size=[60, 12])
    features = (directions * rng.uniform(0.5, 5, [60, 1]) * np.geomspace(1, 1e4, 12)).astype(np.float32)
    points = on_a_plane(features, seed=1)
    assert points.shape == (60, 2)
    nearest = NearestNeighbors(n_neighbors=2).fit(points).kneighbors(points, return_distance=False)[:, 1]
    assert (kinds[nearest] == kinds).mean() > 0.9
    np.testing.assert_array_equal(points, on_a_plane(features, seed=1))
    assert on_a_plane(features[:5]).shape == (5, 2)
    assert refusal(on_a_plane, features[:4]) == "a map needs at least five images, but only 4 can be read"


def test_features_that_are_not_finite_are_refused(tmp_path, refusal):
    source = data.open_source("synthetic", "test")
    few = share.at_most(source, 10)
    message = refusal(
        atlas, lambda images, training: {"conv1": images / 0.0}, few, Crops(32, 32), InputReport(few), tmp_path
    )
    assert message.startswith("conv1: its features are not finite")
