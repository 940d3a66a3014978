"""A step on a GPU: it is all computed there, and the host does not wait for it. Tested without a GPU."""

import gpu_kernels
import pytest
import tensorflow as tf

from lci_tf.pretraining import batches

pytestmark = pytest.mark.skipif(not gpu_kernels.are_registered(), reason="a TensorFlow without kernels for GPUs")

# The only exception: Keras's loss scaling decides on the host whether to skip a step, and whether to change the scale.
OF_LOSS_SCALING = "If of bool ("


@pytest.fixture(autouse=True)
def as_with_a_gpu(monkeypatch):
    """Code that asks whether there is a GPU is told so."""
    devices = tf.config.list_physical_devices

    def with_one(device_type=None):
        return devices(device_type) + [tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")] * (
            device_type == "GPU"
        )

    monkeypatch.setattr(tf.config, "list_physical_devices", with_one)


def left_to_host(learner, side):
    """Of a step, by the registry."""
    drawn = batches.draw(0, tf.constant(0, tf.int64), 8, learner.transforms)
    draws = {name: tf.TensorSpec(values.shape, values.dtype) for name, values in drawn.items()}
    step = tf.function(lambda batch: learner.train_step(batch))
    return gpu_kernels.left_to_host(
        step.get_concrete_function({"image": tf.TensorSpec([8, side, side, 3]), "draws": draws})
    )


SETTINGS = {
    "bfloat16": {"mixed_precision": "bfloat16"},
    "ResNet-34": {"backbone": "resnet34"},
    "deeper F and D": {"inpainter_halvings": 4, "discriminator_halvings": 3},
    "the authors' resampling and warp": {"resample": "authors", "random_warp_points": True},
    "every class cut on its own": {"resample": "each"},
    "no tilt": {"tilt": 0.0, "resample": "each"},
    "F frozen": {"inpainter": "some_run"},
    "F alone": {"inpainter_only": True},
    "no inpainting": {"transforms": ("rot", "warp")},
    "seams": {"transforms": ("tiles",), "margin": 0},
}


def test_all_of_a_step_is_computed_on_the_gpu(tiny_learner):
    assert left_to_host(tiny_learner(), side=40) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_all_of_a_step_with_other_settings_is_computed_on_the_gpu(tiny_learner, name):
    settings = SETTINGS[name]
    assert left_to_host(tiny_learner(**settings), side=32 + settings.get("margin", 8)) == []


@pytest.mark.slow
def test_with_float16_only_the_loss_scale_is_left_to_the_host(tiny_learner):
    found = left_to_host(tiny_learner(mixed_precision="float16"), side=40)
    assert found and all(line.startswith(OF_LOSS_SCALING) for line in found)


def of(function):
    return gpu_kernels.left_to_host(tf.function(function).get_concrete_function(tf.TensorSpec([4, 4])))


def test_what_has_no_kernel_for_gpus_is_found():
    found, *_ = of(tf.strings.as_string)
    assert found.startswith("AsString of float32 (") and found.endswith("has no kernel for GPUs")


def test_data_that_a_kernel_wants_in_the_hosts_memory_are_found():
    read, computed = of(lambda x: tf.argmax(x, output_type=tf.int32) == 1)
    assert read.startswith("Equal of int32 (") and read.endswith("takes x from the GPU to the host")
    assert computed.endswith("is computed on the host")


def test_shapes_and_constants_are_no_data():
    assert of(lambda x: tf.reshape(x, [tf.shape(x)[1] * tf.range(5)[1], -1]) + tf.zeros(tf.shape(x))) == []


def test_what_is_called_is_looked_at_too():
    text = tf.strings.as_string
    called = tf.function(lambda x: tf.strings.length(text(x)))
    assert any("AsString" in line for line in of(lambda x: called(x)))
    branches = of(lambda x: tf.cond(x[0, 0] > 0, lambda: text(x), lambda: text(-x)))
    assert sum("AsString" in line for line in branches) == 2
