import json

import numpy as np
import pytest
import tensorflow as tf

from lci_tf import models
from lci_tf.config import presets
from lci_tf.imaging import images
from lci_tf.runs import Run, checkpoints, trained

LABELS = ["identity", "rot90"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with one checkpoint, of a C that was not trained; and that C."""
    run = Run(tmp_path_factory.mktemp("runs") / "one")
    settings = presets.resolve("stl10", {"crop_size": 32, "width": 0.1, "transforms": ("rot", "my:Own")})
    run.begin({**vars(settings), "dataset": "stl10"})
    run.describe({"labels": LABELS, "parameters": {"C": 1}})
    tf.keras.utils.set_random_seed(5)
    classifier = models.classifier("alexnet_small", len(LABELS), 32, width=0.1)
    saver = checkpoints.Checkpoints(run, {"classifier": classifier})
    saver.restore_latest()
    saver.save(7)
    return run, settings, classifier


@pytest.fixture
def x():
    return tf.random.stateless_uniform([2, 32, 32, 3], [0, 0], -1.0, 1.0)


def test_settings_come_back_from_the_run(run):
    assert run[0].settings() == run[1]


@pytest.mark.parametrize("place", ["", "checkpoints/step-7"])
def test_c_of_a_run(run, x, place):
    found = trained.from_run(run[0].path / place)
    maps, expected = found.maps(x, training=False), run[2](x, training=False)
    assert found.layers == ("conv1", "conv2", "conv3", "conv4", "conv5")
    for layer in found.layers:
        np.testing.assert_array_equal(maps[layer], expected[layer])
    assert (found.crop_size, found.resize, found.labels) == (32, 48, tuple(LABELS))
    assert found.origin["step"] == 7 and len(found.origin["digest"]) == 16
    json.dumps(found.origin)


def test_a_random_network_like_that_of_a_run(run, x):
    first, same, other = (trained.random_like(run[0].path, seed).maps(x)["conv5"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert np.abs(first - other).max() > 0


def test_batch_norm_is_calibrated():
    model = trained.random("alexnet_small", width=0.1)
    seen = tf.random.stateless_uniform([8, 32, 32, 3], [0, 1], -1.0, 1.0)
    by_batch = model.maps(seen, training=True)["conv1"]
    assert np.abs(model.maps(seen, training=False)["conv1"] - by_batch).max() > 1
    trained.calibrate_batch_norm(model, [seen] * trained.BATCHES_SEEN)
    assert np.abs(model.maps(seen, training=False)["conv1"] - by_batch).max() < 0.1


def test_only_some_layers(run, x, refusal):
    found = trained.from_run(run[0].path)
    conv2 = found.only(["conv2"])
    assert conv2.layers == ("conv2",) and list(conv2.maps(x)) == ["conv2"]
    np.testing.assert_array_equal(conv2.maps(x)["conv2"], found.maps(x)["conv2"])
    assert refusal(found.only, ["conv6"]) == (
        "--layers=conv6: no such layer; there are conv1, conv2, conv3, conv4, conv5"
    )


def keras_model():
    inputs = tf.keras.Input([32, 32, 3])
    hidden = tf.keras.layers.Conv2D(4, 3, name="first")(inputs)
    return tf.keras.Model(inputs, tf.keras.layers.GlobalAveragePooling2D(name="pooled")(hidden))


def test_a_keras_model(tmp_path, x, refusal):
    model = keras_model()
    model.save(tmp_path / "model.keras")
    whole = trained.from_file(tmp_path / "model.keras", pixels="0..255")
    assert (whole.layers, whole.crop_size) == (("pooled",), 32)
    levels = (x + 1) * 127.5
    np.testing.assert_allclose(whole.maps(x)["pooled"][:, 0, 0], model(levels), rtol=1e-4, atol=1e-3)
    inner = trained.from_file(tmp_path / "model.keras", layers=["first"], pixels="0..255")
    np.testing.assert_allclose(inner.maps(x)["first"], model.layers[1](levels), rtol=1e-4, atol=1e-3)
    assert whole.origin["digest"] == inner.origin["digest"]
    message = refusal(trained.from_file, tmp_path / "model.keras", ["second"])
    assert message.startswith(f"--layers=second: no such layer; --model={tmp_path / 'model.keras'} has ")


def test_a_saved_model(tmp_path, x, refusal):
    module = tf.Module()
    kernel = tf.random.stateless_normal([3, 3, 3, 4], [1, 2])

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.uint8)])
    def serve(image):
        maps = tf.nn.conv2d(tf.cast(image, tf.float32), kernel, 1, "SAME")
        return {"conv1": maps, "embedding": tf.reduce_mean(maps, [1, 2]), "count": tf.shape(image)[0],
                "names": tf.fill([tf.shape(image)[0], 2], "cat")}  # fmt: skip

    tf.saved_model.save(module, str(tmp_path / "saved"), signatures={"images": serve})
    found = trained.from_file(tmp_path / "saved")
    assert found.layers == ("conv1", "embedding")
    expected = serve(images.unscale(x))
    np.testing.assert_allclose(found.maps(x)["conv1"], expected["conv1"], rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(found.maps(x)["embedding"][:, 0, 0], expected["embedding"], rtol=1e-4, atol=1e-2)
    assert list(found.only(["embedding"]).maps(x)) == ["embedding"]
    assert "no such output" in refusal(trained.from_file, tmp_path / "saved", ["conv9"])


def test_what_is_no_network(tmp_path, run, refusal):
    assert refusal(trained.from_file, tmp_path / "none").endswith("no such file or folder")
    (tmp_path / "text.keras").write_text("hello")
    assert "cannot be read as a Keras model or a SavedModel" in refusal(trained.from_file, tmp_path / "text.keras")
    assert "cannot be read as a Keras model or a SavedModel" in refusal(trained.from_file, tmp_path)
    empty = Run(tmp_path / "empty")
    empty.begin({})
    assert refusal(trained.from_run, empty.path).endswith("has no checkpoint yet")
    lost = tmp_path / "step-1"
    for path in (run[0].path / "checkpoints").glob("step-7*"):
        (tmp_path / path.name.replace("step-7", "step-1")).write_bytes(path.read_bytes())
    assert "is not in a run directory" in refusal(trained.from_run, lost)
