import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from lci_tf.config import probe_protocols
from lci_tf.data.source import PixelArray
from lci_tf.evaluation.probe import linear_probe, tasks
from lci_tf.evaluation.probe.frozen import FrozenFeatures
from lci_tf.evaluation.probe.tasks import Task
from lci_tf.evaluation.results import SINGLE
from lci_tf.runs import trained
from lci_tf.runs.trained import FeatureModel

CLASSES = ("dark", "grey", "light")


def protocol(**given):
    return probe_protocols.resolve("stl10", {"crop_size": 8, "resize": 8, "batch_size": 6, **given})


def shades(count, seed=0, side=8):
    """Noise around three levels of grey."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 3
    pixels = 60 + 60 * labels[:, None, None, None] + rng.normal(0, 30, [count, side, side, 3])
    return PixelArray(name="shades", split="all", count=count, label_kind="class", label_names=CLASSES,
                      pixels=pixels.clip(0, 255).astype(np.uint8), labels=labels)  # fmt: skip


def pixels_as_maps():
    """Two layers: the image, and every other pixel of it."""
    return FeatureModel(lambda x, training: {"conv1": x, "conv2": x[:, ::2, ::2]}, ("conv1", "conv2"), {})


def task(source=None, settings=None):
    source = source or shades(30)
    return tasks.by_labels(source, shades(12, seed=9), settings or protocol(), seed=3)


# A training, in NumPy, from what is known of the authors' head: batch normalisation without scale or offset, momentum
# 0.975, of each channel of the map over positions and images; then flattened; then a dense layer with He's
# initialisation and an L2 on its weights, by SGD with Nesterov's momentum.


def normalised(maps, mean, variance):
    """Channel by channel, in loops, so that no axis can be mistaken for another."""
    flat = np.empty([len(maps), maps[0].size])
    for image, of_image in zip(maps, flat, strict=True):
        unit = 0
        for row in image:
            for place in row:
                for channel, value in enumerate(place):
                    of_image[unit] = (value - mean[channel]) / np.sqrt(variance[channel] + 1e-3)
                    unit += 1
    return flat


def trained_in_numpy(batches, weights, rates, settings, classes):
    weights, bias = weights.astype(np.float64), np.zeros(classes)
    velocities = [np.zeros_like(weights), np.zeros_like(bias)]
    moving = None
    for (maps, labels), rate in zip(batches, rates, strict=True):
        of_channels = [maps[..., channel].ravel() for channel in range(maps.shape[-1])]
        now = np.array([[values.mean(), values.var()] for values in of_channels]).T
        moving = 0.975 * (now if moving is None else moving) + 0.025 * now
        x = normalised(maps, *now)
        logits = x @ weights + bias
        probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        error = (probabilities - np.eye(classes)[labels]) / len(labels)
        gradients = [x.T @ error + 2 * settings.l2 * weights, error.sum(axis=0)]
        for parameter, gradient, velocity in zip((weights, bias), gradients, velocities, strict=True):
            velocity *= settings.momentum
            velocity -= rate * gradient
            parameter += settings.momentum * velocity - rate * gradient
    return weights, bias, *moving


def test_trains_as_written_in_numpy(tmp_path):
    # Ten steps, with an L2 that shows in them.
    settings = dataclasses.replace(protocol(epochs=2), l2=0.05)
    given = task(settings=settings)
    features = FrozenFeatures(pixels_as_maps(), settings)
    tf.keras.utils.set_random_seed(7)
    initial = linear_probe.build_heads(features.units, features.channels, 3, settings)
    heads = linear_probe.train_heads(features, given, settings, tmp_path, seed=7)
    batches = [batch for batch, _ in zip(given.train(0), range(10), strict=False)]
    # From 8, 40, 70 and 90 % of ten steps on.
    rates = [0.1] + [0.01] * 3 + [0.002] * 3 + [0.0004] * 2 + [0.00008]
    for layer, every in (("conv1", 1), ("conv2", 2)):
        maps = [(b["image"].numpy()[:, ::every, ::every], b["label"].numpy()) for b in batches]
        kernel = initial.get_layer(f"{layer}_fc").kernel.numpy()
        expected = trained_in_numpy(maps, kernel, rates, settings, 3)
        dense, batch_norm = heads.get_layer(f"{layer}_fc"), heads.get_layer(f"{layer}_bn")
        found = (dense.kernel, dense.bias, batch_norm.moving_mean, batch_norm.moving_variance)
        for value, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-3, atol=1e-4)
        # And what is made of a test image then, by the moving averages.
        logits = heads({name: tf.reshape(maps[0][0], [6, -1]) if name == layer else tf.zeros([6, n])
                        for name, n in features.units.items()}, training=False)[layer]  # fmt: skip
        weights, bias, mean, variance = expected
        np.testing.assert_allclose(
            logits, normalised(maps[0][0], mean, variance) @ weights + bias, rtol=1e-2, atol=1e-3
        )


@pytest.mark.parametrize("classes", [3, 1000])
def test_initial_weights_are_hes(classes):
    """Var(w) = 2 / fan-in, whatever the number of classes is."""
    heads = linear_probe.build_heads({"conv1": 3200}, {"conv1": 32}, classes, protocol())
    kernel = heads.get_layer("conv1_fc").kernel.numpy()
    assert kernel.shape == (3200, classes)
    assert kernel.var() == pytest.approx(2 / 3200, rel=0.05) and abs(kernel.mean()) < 1e-3


def test_rates_change_at_their_share_of_the_training():
    settings = probe_protocols.PROTOCOLS["imagenet"]
    rates = linear_probe.learning_rates(settings, steps=650)
    by_epoch = [float(rates(10 * epoch)) for epoch in range(65)]
    assert by_epoch == pytest.approx([0.1] * 5 + [0.01] * 20 + [0.002] * 20 + [0.0004] * 20)
    assert float(rates(49)) == pytest.approx(0.1)


def test_epochs_are_steps():
    assert linear_probe.steps_of(probe_protocols.PROTOCOLS["stl10"], 5000) == 54_688  # 700 epochs in batches of 64
    assert linear_probe.steps_of(protocol(epochs=1), 2) == 1


# Losses.


def test_images_without_a_class_do_not_count():
    logits = np.random.default_rng(0).normal(size=[5, 3]).astype(np.float32)
    labels = tf.constant([2, -1, 0, 0, -1])
    counted = logits[[0, 2, 3]]
    expected = np.log(np.exp(counted).sum(axis=1)) - counted[range(3), [2, 0, 0]]
    assert linear_probe.loss(logits, labels).numpy() == pytest.approx(expected.mean(), rel=1e-5)
    assert linear_probe.loss(logits, tf.fill([5], -1)).numpy() == 0


def test_several_labels_are_classifiers_of_their_own():
    logits = 3 * np.random.default_rng(0).normal(size=[4, 3]).astype(np.float32)
    labels = np.array([[1, 0, -1], [0, -1, -1], [1, 1, -1], [0, 0, -1]], np.int8)
    probability = 1 / (1 + np.exp(-logits.astype(np.float64)))
    losses = -np.where(labels == 1, np.log(probability), np.log(1 - probability))
    expected = losses[:, 0].mean() + losses[[0, 2, 3], 1].mean()
    assert linear_probe.loss(logits, tf.constant(labels)).numpy() == pytest.approx(expected, rel=1e-5)


# The network.


def test_the_network_runs_once_per_batch_and_nothing_of_it_moves(tmp_path):
    model = trained.random("alexnet_small", width=0.1)
    runs, learning = tf.Variable(0), []

    def counted(images, training):
        learning.append(training)
        runs.assign_add(1)
        return model.maps(images, training=training)

    # Another mean than batch normalisation begins with, that would be drawn to the images' in training.
    for variable in model.maps.variables:
        variable.assign_add(tf.random.stateless_uniform(variable.shape, [1, 2], 0.0, 0.01))
    before = [variable.numpy() for variable in model.maps.variables]
    settings = protocol(crop_size=32, resize=32, epochs=1)
    given = task(shades(18, side=32), settings)
    features = FrozenFeatures(dataclasses.replace(model, maps=counted), settings)
    runs.assign(0)
    linear_probe.train_heads(features, given, settings, tmp_path)
    assert runs.numpy() == 3 and not any(learning)
    for variable, value in zip(model.maps.variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def test_a_random_network_is_calibrated_on_training_images(monkeypatch):
    monkeypatch.setattr(trained, "BATCHES_SEEN", 5)
    model = trained.random("alexnet_small", width=0.1)
    settings = protocol(crop_size=32, resize=32)
    before = model.maps.get_layer("conv1_bn").moving_variance.numpy()
    given = task(shades(18, side=32), settings)
    tasks.calibrate_batch_norm(model, given)
    settled = model.maps.get_layer("conv1_bn").moving_variance.numpy()
    assert np.abs(settled - before).max() > 1
    again = trained.random("alexnet_small", width=0.1)
    tasks.calibrate_batch_norm(again, given)
    np.testing.assert_allclose(again.maps.get_layer("conv1_bn").moving_variance, settled, rtol=1e-5)


# The whole.


def test_learns_and_resumes_exactly(tmp_path):
    settings = protocol(epochs=8)  # forty steps
    features = FrozenFeatures(pixels_as_maps(), settings)
    whole = task(settings=settings)
    straight = linear_probe.train_heads(features, whole, settings, tmp_path / "straight", checkpoint_every=15)

    class Killed(Exception):
        pass

    def breaking_off(start):
        for number, batch in enumerate(whole.train(start), start):
            if number == 22:
                raise Killed
            yield batch

    with pytest.raises(Killed):
        broken = dataclasses.replace(whole, train=breaking_off)
        linear_probe.train_heads(features, broken, settings, tmp_path / "broken", checkpoint_every=15)
    started_at = []
    resumed = dataclasses.replace(whole, train=lambda start: started_at.append(start) or whole.train(start))
    heads = linear_probe.train_heads(features, resumed, settings, tmp_path / "broken", checkpoint_every=15)
    assert started_at == [15]
    for one, other in zip(straight.variables, heads.variables, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)

    # A finished one is not trained again.
    found = linear_probe.probe(features, resumed, settings, tmp_path / "broken")
    assert started_at == [15]
    for layer in ("conv1", "conv2"):
        assert found[layer][SINGLE].value > 0.8 and found[layer][SINGLE].count == 12
    assert list((tmp_path / "broken" / "tensorboard").iterdir())


def test_several_labels_are_learned(tmp_path):
    source, others = shades(30), shades(12, seed=9)
    several = [
        dataclasses.replace(
            one,
            label_kind="multi-label",
            label_names=("dark", "not dark"),
            labels=np.stack([one.labels == 0, one.labels > 0], axis=1).astype(np.int8),
        )
        for one in (source, others)
    ]
    several[0].labels[:5, 0] = -1
    settings = protocol(epochs=8)
    given = tasks.by_labels(*several, settings)
    found = linear_probe.probe(FrozenFeatures(pixels_as_maps(), settings), given, settings, tmp_path)
    assert found["conv1"][SINGLE].kind == "average precision"
    np.testing.assert_array_equal(found["conv1"][SINGLE].per_class, [1.0, 1.0])


def test_features_that_are_not_finite_end_it(tmp_path, refusal):
    broken = FeatureModel(lambda x, training: {"conv1": x, "conv2": x / 0.0}, ("conv1", "conv2"), {})
    settings = protocol(epochs=1)
    features = FrozenFeatures(broken, settings)
    message = refusal(linear_probe.train_heads, features, task(settings=settings), settings, tmp_path)
    assert message.startswith("conv2: its loss is nan at step 5; try a lower --learning_rate")
    assert not (tmp_path / "checkpoints").exists()


def test_a_task_may_be_any_batches(tmp_path):
    """Not only labelled images: here, whether the upper half is the brighter one."""

    def batch(step):
        images = tf.random.stateless_uniform([6, 8, 8, 3], [0, step], -1.0, 0.0)
        labels = tf.range(6, dtype=tf.int64) % 2
        brighter = tf.where(labels[:, None, None, None] == 1, images[:, ::-1], images) + tf.eye(8, 8)[:, :1, None] * 9
        return {"image": tf.where(labels[:, None, None, None] == 1, brighter[:, ::-1], brighter), "label": labels}

    def test():
        for step in range(1000, 1003):
            one = batch(step)
            yield {"image": one["image"][:, None], "label": one["label"], "valid": one["label"] >= 0}

    def train(start):
        return (batch(step) for step in range(start, 10**6))

    own = Task(label_kind="class", label_names=("up", "down"), count=60, test_count=18, train=train,
               train_once=test, test=test)  # fmt: skip
    settings = protocol(epochs=3)
    found = linear_probe.probe(FrozenFeatures(pixels_as_maps(), settings), own, settings, tmp_path)
    assert found["conv1"][SINGLE].value == 1.0
