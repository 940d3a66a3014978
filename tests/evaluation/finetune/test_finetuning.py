"""Trainings of a few steps on images whose class is their colour."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from lci_tf.config.finetune_protocols import PROTOCOLS
from lci_tf.data.input_report import InputReport
from lci_tf.data.pipeline import Crops
from lci_tf.data.source import PixelArray
from lci_tf.errors import InputError
from lci_tf.evaluation.finetune import classifier
from lci_tf.evaluation.finetune.best_weights import BestWeights
from lci_tf.evaluation.finetune.finetuning import FineTuning, Part
from lci_tf.runs import Run, trained

CROPS = Crops(32, 40)
PROTOCOL = dataclasses.replace(
    PROTOCOLS["few_labels"], epochs=4, batch_size=8, learning_rate=1e-3, crop_size=32, resize=40
)


def colourful(count, seed=0, several=False):
    """Red, green or blue; or several labels: which of the three are bright, the last never being told."""
    rng = np.random.default_rng(seed)
    if several:
        labels = rng.integers(0, 2, [count, 3]).astype(np.int8)
        colours = 60 + 130 * labels.astype(np.int64)
        labels[:, 2] = -1
    else:
        labels = np.arange(count) % 3
        colours = 60 + 130 * np.eye(3, dtype=np.int64)[labels]
    pixels = np.clip(colours[:, None, None] + rng.normal(0, 50, [count, 40, 40, 3]), 0, 255).astype(np.uint8)
    return Part(source := PixelArray(
        name="colours", split="train", count=count, label_kind="multi-label" if several else "class",
        label_names=("red", "green", "blue"), pixels=pixels, labels=labels,
    ), InputReport(source))  # fmt: skip


def narrow():
    return trained.random("alexnet_small", width=0.05)


def tiny(batch_normalisation=False):
    """Quickly compiled."""
    inputs = tf.keras.Input([32, 32, 3])
    initializer = tf.keras.initializers.GlorotUniform(seed=0)
    maps = tf.keras.layers.Conv2D(4, 5, strides=4, kernel_initializer=initializer)(inputs)
    if batch_normalisation:
        maps = tf.keras.layers.BatchNormalization(name="bn", momentum=0.975)(maps)
    maps = tf.keras.layers.ReLU()(maps)
    return trained.FeatureModel(tf.keras.Model(inputs, {"conv": maps}, name="features"), ("conv",), {})


def tiny_with_batch_normalisation():
    return tiny(batch_normalisation=True)


@pytest.fixture(scope="module")
def one_device():
    return tf.distribute.MirroredStrategy(["CPU:0"])


@pytest.fixture
def tune(one_device):
    """A fine-tuning, and its network."""

    def make(train, validation=None, protocol=PROTOCOL, strategy=one_device, model=tiny, pretrained=True):
        with strategy.scope():
            model = model()
            classifier.freeze_below(model, protocol.from_layer)
            network = classifier.build(model, 3, train.source.label_kind, 32)
        maps = model.maps if pretrained else None
        return FineTuning(network, maps, train, validation, CROPS, protocol, strategy), network

    return make


def weights_of(network):
    return [weight.numpy() for weight in network.weights]


def test_it_learns(tune, tmp_path):
    train, validation = colourful(24), colourful(9, seed=1)
    tuning, network = tune(train, validation, model=narrow, pretrained=False)
    run = Run(tmp_path)
    assert tuning.train(run) == 4
    records = run.metrics()
    assert [record["step"] for record in records] == [3, 6, 9, 12]
    assert records[-1]["loss"] < records[0]["loss"]
    assert max(record["validation/accuracy"] for record in records) > 0.8
    best = records[tuning.best_epoch - 1]
    found = classifier.Tester(network, validation.source, CROPS, 8, validation.report)()
    assert np.mean(found[0][:, 0].argmax(axis=1) == found[1]) == pytest.approx(best["validation/accuracy"])
    assert (tmp_path / "training_images.png").is_file()
    assert list((tmp_path / "tensorboard").iterdir())


def test_several_labels(tune, tmp_path):
    protocol = dataclasses.replace(PROTOCOL, epochs=6, learning_rate=0.1)
    train = colourful(24, several=True)
    tuning, network = tune(train, colourful(16, seed=1, several=True), protocol, pretrained=False)
    tuning.train(run := Run(tmp_path))
    assert max(record["validation/average_precision"] for record in run.metrics()) > 0.8
    bias = network.get_layer("fc").bias.numpy()
    assert bias[2] == 0 and np.all(bias[:2] != 0)  # what is never told is not learned


def test_a_resumed_training_equals_an_uninterrupted_one(tune, tmp_path, monkeypatch):
    parts, weights = [colourful(20), colourful(6, seed=1)], []

    def only_once(best, network, step, score, loss):
        """The best weights are to be those of step 3, before the checkpoint."""
        if step == 3:
            weights.append(weights_of(network))
            consider(best, network, step, score, loss)

    def killed(run, step, numbers):
        if step == 9 and run.path.name == "killed":
            raise KeyboardInterrupt
        log(run, step, numbers)

    consider, log = BestWeights.consider, Run.log
    monkeypatch.setattr(BestWeights, "consider", only_once)
    monkeypatch.setattr(Run, "log", killed)
    whole, _ = tune(*parts, model=tiny_with_batch_normalisation)
    whole.train(run := Run(tmp_path / "whole"), checkpoint_every=4)
    with pytest.raises(KeyboardInterrupt):
        tune(*parts, model=tiny_with_batch_normalisation)[0].train(Run(tmp_path / "killed"), checkpoint_every=4)
    again, network = tune(*parts, model=tiny_with_batch_normalisation)
    again.train(resumed := Run((tmp_path / "killed").rename(tmp_path / "resumed")), checkpoint_every=4)
    assert [record["step"] for record in resumed.metrics()] == [3, 6, 9, 12]
    for expected, record in zip(run.metrics(), resumed.metrics(), strict=True):
        assert record == pytest.approx(expected, rel=1e-4)
    assert whole.best_epoch == again.best_epoch == 1
    for expected, weight in zip(weights[0], weights_of(network), strict=True):
        np.testing.assert_allclose(weight, expected, atol=1e-6)


def test_it_stops_when_validation_does_not_improve(tune, tmp_path):
    protocol = dataclasses.replace(PROTOCOL, epochs=50, patience=2, learning_rate=1e-9, pretrained_learning_rate=1e-9,
                                   weight_decay=0.0, strong_augmentation=False)  # fmt: skip
    tuning, _ = tune(colourful(8), colourful(6), protocol)
    tuning.best.score.assign(1.0)
    assert tuning.train(Run(tmp_path / "stopped")) == 2


def test_new_and_pretrained_layers_learn_at_their_rates(tune):
    """The first step of Adam is as long as the rate, whatever the gradient."""
    protocol = dataclasses.replace(PROTOCOL, weight_decay=0.0, strong_augmentation=False)
    batch = {"image": tf.random.stateless_uniform([8, 32, 32, 3], [0, 0], -1.0, 1.0), "label": tf.range(8) % 3}
    for pretrained, expected in ((True, 1e-4), (False, 1e-3)):
        tuning, network = tune(colourful(8), None, protocol, pretrained=pretrained)
        old, _, new, _ = network.trainable_variables
        before = [old.numpy(), new.numpy()]
        tf.function(tuning._step)(batch)
        moved = [np.abs(variable - value).max() for variable, value in zip((old, new), before, strict=True)]
        assert moved == pytest.approx([expected, 1e-3], rel=0.02)


def test_frozen_layers_stay(tune, tmp_path):
    tuning, network = tune(
        colourful(16), None, dataclasses.replace(PROTOCOL, epochs=1, from_layer="conv5"), model=narrow
    )
    features = network.get_layer("features")
    before = {weight.name: weight.numpy() for weight in features.weights}
    assert tuning.train(Run(tmp_path)) == 1 and tuning.best_epoch is None
    changed = {weight.name[:5] for weight in features.weights if np.any(weight != before[weight.name])}
    assert changed == {"conv5"}


def test_batch_normalisation_begins_with_the_statistics_of_some_batches(tune):
    protocol = dataclasses.replace(PROTOCOL, strong_augmentation=False)
    tuning, network = tune(colourful(8), None, protocol, model=tiny_with_batch_normalisation)
    features = network.get_layer("features")
    norm = features.get_layer("bn")
    batches = list(tuning._batches(0).take(3))
    tuning._calibrate_batch_norm(batches)
    assert norm.momentum == 0.975
    before = tf.keras.Model(features.input, norm.input)(tf.concat([batch["image"] for batch in batches], axis=0))
    np.testing.assert_allclose(norm.moving_mean, tf.reduce_mean(before, [0, 1, 2]), atol=1e-4)


@pytest.mark.parametrize("several", [pytest.param(False, marks=pytest.mark.slow), True])
def test_two_replicas_learn_what_one_does(tune, two_replicas, tmp_path, several):
    train, validation = (colourful(12, seed, several) for seed in (0, 1))
    train.source.labels[1:3] = -1  # so that the two parts of a batch do not count alike
    found = []
    for name, options in (("one", {}), ("two", {"strategy": two_replicas})):
        tuning, network = tune(train, validation, **options)
        tuning.train(run := Run(tmp_path / name))
        found.append((weights_of(network), run.metrics()))
    for one, two in zip(found[0][0], found[1][0], strict=True):
        np.testing.assert_allclose(one, two, atol=2e-5)
    assert [r["loss"] for r in found[0][1]] == pytest.approx([r["loss"] for r in found[1][1]], rel=1e-4)


def test_the_best_weights():
    network = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=[1])])
    best = BestWeights(network)
    for step, (score, loss) in enumerate([(float("nan"), 9.0), (0.7, 0.5), (0.7, 0.6), (0.7, 0.4), (0.6, 0.1)], 1):
        network.weights[0].assign([[step]])
        best.consider(network, step, score, loss)
    assert int(best.step) == 4
    best.give_to(network)
    assert network.weights[0].numpy() == 4


def test_a_training_that_diverges_is_reported_in_one_line(tune, tmp_path):
    tuning, network = tune(colourful(8))
    network.get_layer("fc").bias.assign([np.nan] * 3)
    with pytest.raises(InputError, match="the loss is nan at step 1: the training has diverged; try lower --learning"):
        tuning.train(Run(tmp_path))
