import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from lci_tf import models
from lci_tf.config import presets
from lci_tf.evaluation.voc import rescaling, trunk
from lci_tf.runs import trained


def learned(backbone="alexnet", crop_size=128):
    """C of a run, as far as a trunk looks at it."""
    tf.keras.utils.set_random_seed(3)
    classifier = models.classifier(backbone, 6, crop_size, width=0.1)
    images = tf.random.stateless_uniform([8, crop_size, crop_size, 3], [0, 0], -1, 1)
    for _ in range(40):
        classifier(images, training=True)
    maps = classifier.get_layer("features")
    origin = {"run": "runs/mine", "backbone": backbone, "width": 0.1, "step": 1200}
    return trained.FeatureModel(maps, tuple(maps.output), origin, crop_size, classifier=classifier,
                                settings=presets.resolve("synthetic", {}))  # fmt: skip


@pytest.fixture(scope="module")
def of_128():
    return learned()


@pytest.fixture(scope="module")
def images():
    return tf.random.stateless_uniform([20, 227, 227, 3], [0, 1], -1, 1)


def fc7_of(model, images):
    """By C itself, with pool5 between."""
    network = model.classifier
    x = tf.nn.max_pool2d(model.maps(images, training=False)["conv5"], 3, 2, "VALID")
    x = tf.reshape(x, [len(images), -1])
    for name in ("fc1", "fc2"):
        x = network.get_layer(f"{name}_bn")(network.get_layer(name)(x), training=False)
        x = tf.nn.relu(x)
    return x


def test_of_a_run_at_128_pixels_all_is_taken(of_128, images):
    built = trunk.build(of_128, 227)
    assert list(built.layers) == ["conv1", "conv2", "conv3", "conv4", "conv5", "fc6", "fc7"]
    assert (built.grid, built.stride, set(built.origins.values())) == (6, 16, {"step 1,200 of runs/mine"})
    assert "conv1 … fc7" in built.describe()
    np.testing.assert_allclose(built.whole(images[:4]), fc7_of(of_128, images[:4]), rtol=1e-3, atol=1e-4)
    assert built.convolutions(images[:1])["conv5"].shape[1:3] == (13, 13)


def test_rescaling_what_was_taken_makes_the_ratios_one_and_keeps_the_function(of_128, images):
    before, built = trunk.build(of_128, 227), trunk.build(of_128, 227, images)
    uneven, even = (rescaling.gradient_ratios(t, images[:16]) for t in (before, built))
    assert max(uneven.values()) / min(uneven.values()) > 1.1
    assert max(even.values()) / min(even.values()) < 1.01
    # Nor does it, should another gradient come.
    other = rescaling.gradient_ratios(built, images[:16], seed=7)
    assert max(other.values()) / min(other.values()) < max(uneven.values()) / min(uneven.values())
    expected = before.whole(images)
    np.testing.assert_allclose(built.whole(images), expected, rtol=1e-3, atol=1e-4 * float(tf.reduce_max(expected)))
    assert np.abs(built.fc6.kernel - before.fc6.kernel).max() > 1e-4


def test_of_a_run_at_64_pixels_the_fully_connected_layers_start_anew(images):
    built = trunk.build(learned("alexnet_small", 64), 227, images)
    assert built.origins["conv5"] == "step 1,200 of runs/mine"
    assert built.origins["fc6"] == "new, since C's takes maps of 4×4, not 8×8" and built.origins["fc7"] == "new"
    assert "conv1 … conv5" in built.describe()
    whole = trunk.build(learned("alexnet_small", 64))
    assert whole.grid == 4 and "new" not in set(whole.origins.values())  # for maps of its own size it does


def test_new_layers_have_unit_variance_and_the_bias_as_mean(images):
    """Before the calibration between layers, which multiplies each by a number."""
    model = trained.random("alexnet", 0.1, seed=0)
    built = trunk.build(model, 227, images)
    assert set(built.origins.values()) == {"new"}
    anew = trunk.build(model, 227)
    rescaling._start_anew(anew, images, list(anew.layers), 0)
    for name in ("conv1", "conv4", "fc6", "fc7"):
        responses = rescaling._responses(anew, name, images)
        axes = list(range(len(responses.shape) - 1))
        np.testing.assert_allclose(tf.reduce_mean(responses, axes), rescaling.BIAS, atol=1e-3)
        np.testing.assert_allclose(tf.math.reduce_std(responses, axes), 1, atol=1e-3)
    even = rescaling.gradient_ratios(built, images[:16])
    assert max(even.values()) / min(even.values()) < 1.01


def test_the_same_seed_gives_the_same_trunk(images):
    made = [
        trunk.build(trained.random("alexnet", 0.1, seed=s), 227, images, seed=s).whole(images[:2]) for s in (1, 1, 2)
    ]
    np.testing.assert_array_equal(made[0], made[1])
    assert np.abs(made[0] - made[2]).max() > 0.01


def test_resnet_has_the_mean_in_the_place_of_fc6(images):
    model = trained.random("resnet34", 0.1, seed=0)
    built = trunk.build(model, 96, images[:4, :96, :96])
    assert built.fc6 is None and built.stride == 32 and set(built.origins.values()) == {"new"}
    vectors = built.whole(images[:4, :96, :96])
    assert vectors.shape == (4, built.units)
    np.testing.assert_allclose(vectors, tf.reduce_mean(built.conv5(images[:4, :96, :96]), [1, 2]), rtol=1e-5)
    assert np.isfinite(vectors).all() and np.std(vectors) > 1e-3  # its batch normalisation has seen the images


def test_dropout_is_drawn_by_its_seed_and_keeps_the_mean(of_128, images):
    built = trunk.build(of_128, 227)
    pooled = built.pool5(built.conv5(images[:2]))
    seed = tf.constant([1, 2], tf.int64)
    dropped, again = (built.vectors(pooled, 0.5, seed) for _ in range(2))
    np.testing.assert_array_equal(dropped, again)
    sure = built.vectors(pooled)
    assert np.mean((dropped == 0) & (sure > 0)) / np.mean(sure > 0) == pytest.approx(0.5, abs=0.15)
    np.testing.assert_array_equal(built.vectors(pooled, 0.5), sure)


def test_a_saved_model_is_refused(of_128, refusal):
    foreign = dataclasses.replace(of_128, maps=lambda x: x, origin={"model": "some/model"})
    assert refusal(trunk.build, foreign) == "--model=some/model: a SavedModel cannot be trained on; give a Keras model"


def test_a_network_for_images_of_one_size_is_told_with_its_size(refusal):
    inputs = tf.keras.Input([64, 64, 3])
    maps = tf.keras.Model(inputs, {"conv": tf.keras.layers.Conv2D(2, 3, name="conv")(inputs)})
    own = trained.FeatureModel(maps, ("conv",), {"model": "own.keras"}, crop_size=64)
    assert refusal(trunk.build, own, 67) == "--crop_size=67: --model=own.keras takes images of 64×64 pixels only"
    assert refusal(trunk.require_any_size, own, "detection") == (
        "--model=own.keras: takes images of 64×64 pixels only; --task=detection needs a network that takes any size"
    )
    assert trunk.build(own, 64).last == "conv"
    trunk.require_any_size(trained.random("alexnet_small", 0.05), "detection")
