import numpy as np
import pytest
import tensorflow as tf

import lci_tf
from lci_tf.runs import trained


@pytest.fixture
def pixels():
    return tf.constant(np.random.default_rng(0).integers(0, 256, [3, 40, 48, 3], np.uint8))


@pytest.mark.parametrize("feature", ["embedding", "conv4"])
def test_runs_and_exports_give_the_same(run, export_dir, pixels, feature):
    maps = trained.from_run(run.path).maps(tf.cast(pixels, tf.float32) / 127.5 - 1, training=False)
    expected = maps.get(feature)
    if feature == "embedding":
        expected = tf.math.l2_normalize(tf.reduce_mean(maps["conv5"], [1, 2]), axis=1)
    for place in (run.path, run.path / "checkpoints" / "step-7", export_dir, export_dir / "1"):
        np.testing.assert_allclose(lci_tf.load_features(place, feature)(pixels), expected, atol=1e-4)


@pytest.mark.parametrize("of", ["run", "export"])
@pytest.mark.parametrize("trainable", [False, True])
def test_frozen_or_trained_in_a_classifier(run, export_dir, pixels, of, trainable):
    layer = lci_tf.load_features(run.path if of == "run" else export_dir, trainable=trainable)
    before = [weight.numpy() for weight in layer.weights]
    assert len(before) == 25 and len(layer.trainable_weights) == (15 if trainable else 0)
    classifier = tf.keras.Sequential([layer, tf.keras.layers.Dense(2)])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    classifier.compile(tf.keras.optimizers.legacy.SGD(1.0), loss)
    classifier.fit(pixels, np.array([0, 1, 0]), epochs=2, verbose=0)
    moved = [np.abs(weight - old).max() > 0 for weight, old in zip(layer.weights, before, strict=True)]
    statistics = ["moving" in weight.name for weight in layer.weights]
    assert moved == [trainable and not is_statistic for is_statistic in statistics]


def test_what_cannot_be_loaded(run, export_dir, tmp_path, refusal):
    assert "feature=conv9: unknown; there are embedding, conv1" in refusal(lci_tf.load_features, run.path, "conv9")
    assert "has no exported version" in refusal(lci_tf.load_features, tmp_path)
    assert "no such run or checkpoint" in refusal(lci_tf.load_features, tmp_path / "none")
    tf.saved_model.save(tf.Module(), str(tmp_path / "1"))
    assert "is a SavedModel, but not an export of lci_tf" in refusal(lci_tf.load_features, tmp_path)
