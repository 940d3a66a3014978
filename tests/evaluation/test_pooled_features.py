import numpy as np
import pytest
import tensorflow as tf

from lci_tf.data import pipeline
from lci_tf.data.input_report import InputReport
from lci_tf.data.sets import folder
from lci_tf.data.source import PixelArray
from lci_tf.evaluation.pooled_features import pooled_features

CROPS = pipeline.Crops(crop_size=12, resize=12)


def pooled_in_numpy(feature_map, grid):
    """Each pixel becomes grid × grid equal ones: then the bins hold whole pixels."""
    fine = feature_map.astype(np.float64).repeat(grid, axis=1).repeat(grid, axis=2)
    n, height, width, channels = fine.shape
    return fine.reshape(n, grid, height // grid, grid, width // grid, channels).mean(axis=(2, 4))


def labelled_pixels(count=11):
    rng = np.random.default_rng(1)
    pixels = rng.integers(0, 256, [count, 12, 12, 3], np.uint8)
    labels = np.arange(count, dtype=np.int64) % 3
    return PixelArray(name="random", split="all", count=count, label_kind="class", label_names=("a", "b", "c"),
                      pixels=pixels, labels=labels)  # fmt: skip


def identity_and_dropout():
    """`conv1` is the image; `conv2` is the image too, unless in training mode."""
    image = tf.keras.Input([12, 12, 3])
    return tf.keras.Model(image, {"conv1": image, "conv2": tf.keras.layers.Dropout(0.9)(image)})


@pytest.mark.parametrize("batch_size", [4, 64])
def test_features_of_all_images_in_order(batch_size):
    source = labelled_pixels()
    features, labels = pooled_features(identity_and_dropout(), source, CROPS, batch_size, 4, InputReport(source))
    expected = pooled_in_numpy(source.pixels / 127.5 - 1, 4).reshape(11, 16, 3)
    assert list(features) == ["conv1", "conv2"]
    for layer in features.values():
        assert layer.dtype == np.float32
        np.testing.assert_allclose(layer, expected, atol=1e-5)
    np.testing.assert_array_equal(labels, source.labels)


def test_features_are_float32_under_mixed_precision():
    source = labelled_pixels()
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        features, _ = pooled_features(identity_and_dropout(), source, CROPS, 4, 4, InputReport(source))
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    expected = pooled_in_numpy(source.pixels / 127.5 - 1, 4).reshape(11, 16, 3)
    assert features["conv2"].dtype == np.float32
    np.testing.assert_allclose(features["conv2"], expected, atol=2e-3)


def test_unreadable_images_are_left_out(tmp_path, write_png):
    stored = [write_png(f"{name}/{i}.png", 12, 12) for name in ("cat", "dog") for i in range(3)]
    (tmp_path / "cat" / "1.png").write_bytes(b"not an image")
    source = folder.open_folder(tmp_path, split="all")
    report = InputReport(source, max_bad_images=1)
    features, labels = pooled_features(identity_and_dropout(), source, CROPS, 4, 12, report)
    np.testing.assert_array_equal(labels, [0, 0, 1, 1, 1])
    readable = np.stack([image for i, image in enumerate(stored) if i != 1])
    np.testing.assert_allclose(features["conv1"], readable.reshape(5, 144, 3) / 127.5 - 1, atol=1e-5)
    assert list(report.unreadable) == [1]


def test_too_many_unreadable_images_are_reported_in_one_line(tmp_path, write_png, refusal):
    for name in ("cat", "dog"):
        write_png(f"{name}/1.png", 12, 12)
    (tmp_path / "cat" / "1.png").write_bytes(b"not an image")
    source = folder.open_folder(tmp_path, split="all")
    report = InputReport(source, max_bad_images=0)
    message = refusal(pooled_features, identity_and_dropout(), source, CROPS, 4, 1, report)
    assert "cat/1.png" in message and "--max_bad_images" in message


def test_images_without_a_label_are_left_out():
    source = labelled_pixels()
    source.labels[[0, 10]] = -1
    features, labels = pooled_features(identity_and_dropout(), source, CROPS, 4, 1, InputReport(source))
    np.testing.assert_array_equal(labels, source.labels[1:10])
    np.testing.assert_allclose(features["conv1"][:, 0], source.pixels[1:10].mean(axis=(1, 2)) / 127.5 - 1, atol=1e-5)
