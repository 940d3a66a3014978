import numpy as np
import pytest
import tensorflow as tf

from lci_tf.evaluation.finetune import classifier
from lci_tf.runs import trained


@pytest.fixture
def x():
    return tf.random.stateless_uniform([4, 32, 32, 3], [0, 0], -1.0, 1.0)


def narrow(backbone="alexnet_small"):
    return trained.random(backbone, width=0.05)


def test_alexnet_has_the_head_of_c(x):
    model = narrow()
    network = classifier.build(model, 3, "class", 32)
    assert [layer.name for layer in network.layers if layer.weights] == [
        "features", "fc1", "fc1_bn", "fc2", "fc2_bn", "fc3"
    ]  # fmt: skip
    found, maps = network(x), model.maps(x)
    assert list(found) == [*model.layers, "logits", "probabilities"]
    for layer in model.layers:
        np.testing.assert_array_equal(found[layer], maps[layer])
    np.testing.assert_allclose(found["probabilities"], tf.nn.softmax(found["logits"]), atol=1e-6)


@pytest.mark.slow
def test_resnet_has_a_simple_head(x):
    network = classifier.build(narrow("resnet34"), 3, "multi-label", 32)
    assert [layer.name for layer in network.layers] == ["images", "features", "pool5", "fc", "probabilities"]
    found = network(x)
    np.testing.assert_allclose(found["probabilities"], tf.nn.sigmoid(found["logits"]), atol=1e-6)


def test_new_weights_depend_only_on_the_seed():
    first, same, other = (
        classifier.build(narrow(), 3, "class", 32, seed).get_layer("fc1").kernel for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, same)
    assert np.abs(first - other).max() > 0


def test_the_head_may_sit_lower(x):
    model = narrow().only(["conv1", "conv2"])
    assert list(classifier.build(model, 3, "class", 32)(x)) == ["conv1", "conv2", "logits", "probabilities"]


TRAINED = {None: 5, "conv1": 5, "conv2": 4, "conv4": 2, "conv5": 1, "head": 0}


@pytest.mark.parametrize("layer", TRAINED)
def test_from_a_layer_up(layer):
    model = narrow()
    network = classifier.build(model, 3, "class", 32)
    classifier.freeze_below(model, layer)
    kernels = [v.name for v in network.trainable_variables if "kernel" in v.name]
    convolutions = [f"conv{i}/kernel:0" for i in range(1, 6)]
    assert kernels == [*convolutions[5 - TRAINED[layer] :], "fc1/kernel:0", "fc2/kernel:0", "fc3/kernel:0"]


def test_all_is_trained_again_after_something_was_frozen():
    model = narrow()
    classifier.freeze_below(model, "conv5")
    classifier.freeze_below(model, None)
    assert len(model.maps.trainable_variables) == 15


@pytest.mark.slow
def test_from_a_stage_of_resnet_up():
    model = narrow("resnet34")
    classifier.freeze_below(model, "conv4")
    stages = {v.name[:5] for v in model.maps.trainable_variables}
    assert stages == {"conv4", "conv5"}
    assert {v.name[:5] for v in model.maps.variables} == {f"conv{i}" for i in range(1, 6)}


def test_frozen_batch_normalisation_keeps_its_statistics(x):
    model = narrow()
    network = classifier.build(model, 3, "class", 32)
    classifier.freeze_below(model, "conv3")
    means = {name: model.maps.get_layer(f"{name}_bn").moving_mean for name in ("conv2", "conv3")}
    before = {name: mean.numpy() for name, mean in means.items()}
    expected = model.maps(x, training=False)["conv2"]
    np.testing.assert_array_equal(network(x, training=True)["conv2"], expected)
    np.testing.assert_array_equal(means["conv2"], before["conv2"])
    assert np.abs(means["conv3"] - before["conv3"]).max() > 0


def keras_model():
    inputs = tf.keras.Input([32, 32, 3])
    return tf.keras.Model(inputs, tf.keras.layers.Conv2D(4, 3, name="maps")(inputs))


def test_any_keras_model(tmp_path, x, refusal):
    keras_model().save(tmp_path / "model.keras")
    model = trained.from_file(tmp_path / "model.keras")
    network = classifier.build(model, 3, "class", 32)
    assert network(x)["logits"].shape == [4, 3]
    assert len(network.trainable_variables) == 4
    classifier.freeze_below(model, "head")
    assert [v.name for v in network.trainable_variables] == ["fc/kernel:0", "fc/bias:0"]
    assert refusal(classifier.freeze_below, model, "maps") == "--from_layer=maps: no such layer; there are head"
    message = refusal(classifier.build, model, 3, "class", 48)
    assert message == "--crop_size=48: --model takes images of 32 pixels only"


def test_what_cannot_be_fine_tuned(tmp_path, refusal):
    message = refusal(classifier.freeze_below, narrow(), "conv6")
    assert message == "--from_layer=conv6: no such layer; there are conv1, conv2, conv3, conv4, conv5, head"
    message = refusal(classifier.build, narrow("alexnet"), 3, "class", 32)
    assert message == "--crop_size=32: too small for this network, at least 35"
    module = tf.Module()
    serve = tf.function(lambda images: {"maps": images}, [tf.TensorSpec([None, 32, 32, 3], name="images")])
    tf.saved_model.save(module, str(tmp_path / "saved"), {"images": serve})
    message = refusal(classifier.build, trained.from_file(tmp_path / "saved"), 3, "class", 32)
    assert message.endswith("a SavedModel cannot be fine-tuned; give a Keras model")
