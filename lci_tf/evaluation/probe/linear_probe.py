"""Trains linear classifiers, called heads, on all layers of a frozen network at once, with SGD."""

import functools
import itertools
import math
import pathlib
from collections.abc import Callable

import tensorflow as tf
from tqdm import tqdm

from lci_tf.config.probe_protocols import ProbeProtocol
from lci_tf.errors import InputError
from lci_tf.evaluation.label_losses import cross_entropies
from lci_tf.evaluation.probe.frozen import FrozenFeatures
from lci_tf.evaluation.probe.head_evaluation import Found, evaluate_heads
from lci_tf.evaluation.probe.tasks import Task
from lci_tf.runs import Run, preemption
from lci_tf.runs.checkpoints import Checkpoints
from lci_tf.training import memory

_LOG_EVERY = 50  # steps; reading losses waits for the accelerator


def probe(
    features: FrozenFeatures,
    task: Task,
    protocol: ProbeProtocol,
    folder: pathlib.Path,
    seed: int = 0,
    checkpoint_every: int = 1000,
) -> Found:
    """Trains heads and tests them; see `train_heads` and `evaluate_heads`."""
    heads = train_heads(features, task, protocol, folder, seed, checkpoint_every)
    (found,) = evaluate_heads(features, [functools.partial(heads, training=False)], task, are_logits=True)
    return found


def train_heads(
    features: FrozenFeatures,
    task: Task,
    protocol: ProbeProtocol,
    folder: pathlib.Path,
    seed: int = 0,
    checkpoint_every: int = 1000,
) -> tf.keras.Model:
    """Trains a head on each layer, resuming from the folder's last checkpoint if there is one.

    Args:
      features: the frozen network.
      task: the images and labels.
      protocol: how to train.
      folder: folder for checkpoints and TensorBoard logs.
      seed: random seed for the initial weights.
      checkpoint_every: steps between checkpoints.

    Returns:
      The heads: a model from units to logits [n, classes], both by layer.
    """
    steps = steps_of(protocol, task.count)
    tf.keras.utils.set_random_seed(seed)
    heads = build_heads(features.units, features.channels, len(task.label_names), protocol)
    rates = learning_rates(protocol, steps)
    optimizer = tf.keras.optimizers.legacy.SGD(rates, protocol.momentum, nesterov=True)
    means = {layer: tf.keras.metrics.Mean() for layer in features.layers}
    step = training_step(features, heads, optimizer, means)
    # `Run` only provides paths; without `begin`, no command will mistake the folder for a pre-training.
    checkpoints = Checkpoints(Run(folder), {"heads": heads, "optimizer": optimizer}, keep=2)
    first = checkpoints.restore_latest() or 0
    if first >= steps:
        return heads
    writer = tf.summary.create_file_writer(str(folder / "tensorboard"))
    bar = tqdm(initial=first, total=steps, desc="linear probe", unit=" images", unit_scale=protocol.batch_size,
               smoothing=0.05, dynamic_ncols=True)  # fmt: skip
    number = first

    def save():
        checkpoints.save(number)
        return f"at step {number} of {steps}"

    with bar, writer.as_default(), memory.one_line_errors(), preemption.kept_by(save) as after_step:
        batches = itertools.islice(task.train(first), steps - first)
        for number, batch in enumerate(batches, first + 1):
            step(batch["image"], batch["label"])
            bar.update()
            is_kept = number % checkpoint_every == 0 or number == steps
            if is_kept or number % _LOG_EVERY == 0:
                found = {layer: float(mean.result()) for layer, mean in means.items()}
                _stop_if_not_finite(found, number)
                _log(found, float(rates(number - 1)), number)
                bar.set_postfix_str(" ".join(f"{loss:.2f}" for loss in found.values()))
                for mean in means.values():
                    mean.reset_state()
            if is_kept:
                checkpoints.save(number)
            after_step()
    return heads


def training_step(
    features: FrozenFeatures,
    heads: tf.keras.Model,
    optimizer: tf.keras.optimizers.legacy.Optimizer,
    means: dict[str, tf.keras.metrics.Mean],
) -> Callable[[tf.Tensor, tf.Tensor], None]:
    """The step for a batch of images and labels: runs the network once, updates all heads, adds losses to `means`."""

    @tf.function
    def step(images, labels):
        units = features(images)
        if optimizer.iterations == 0:
            set_statistics(heads, units, features.channels)
        with tf.GradientTape() as tape:
            logits = heads(units, training=True)
            losses = {layer: loss(logits[layer], labels) for layer in features.layers}
            # Heads share no weights, so the gradient of the sum is the gradient of each.
            total = tf.add_n([*losses.values(), *heads.losses])
        weights = heads.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(total, weights), weights, strict=True))
        for layer, value in losses.items():
            means[layer].update_state(value)

    return step


def steps_of(protocol: ProbeProtocol, count: int) -> int:
    """The number of training steps with `count` images."""
    return max(1, math.ceil(protocol.epochs * count / protocol.batch_size))


def learning_rates(protocol: ProbeProtocol, steps: int) -> tf.keras.optimizers.schedules.LearningRateSchedule:
    """The learning rate as a function of the step, counted from 0."""
    shares, rates = zip(*protocol.learning_rates, strict=True)
    last_before = [round(share * steps) - 1 for share in shares[1:]]
    return tf.keras.optimizers.schedules.PiecewiseConstantDecay(last_before, list(rates))


def build_heads(
    units: dict[str, int], channels: dict[str, int], classes: int, protocol: ProbeProtocol
) -> tf.keras.Model:
    """Builds a model from layer -> units [n, units] to layer -> logits [n, classes]; `losses` are the heads' L2 terms.

    This is the authors' head: maps are normalised per channel, over positions and images, and then flattened. So
    positions where a channel is rarely active are not amplified.

    Args:
      units, channels: numbers for each layer, see `FrozenFeatures`.
      classes: number of classes.
      protocol: for L2 and the momentum of batch normalisation.
    """
    inputs, logits = {}, {}
    for layer, count in units.items():
        inputs[layer] = tf.keras.Input([count], name=layer)
        by_place = tf.keras.layers.Reshape([-1, channels[layer]])(inputs[layer])
        standardised = tf.keras.layers.BatchNormalization(
            momentum=protocol.bn_momentum, center=False, scale=False, name=f"{layer}_bn"
        )(by_place)
        dense = tf.keras.layers.Dense(
            classes,
            kernel_initializer="he_normal",
            kernel_regularizer=tf.keras.regularizers.L2(protocol.l2),
            name=f"{layer}_fc",
        )
        logits[layer] = dense(tf.keras.layers.Flatten()(standardised))
    return tf.keras.Model(inputs, logits, name="heads")


def set_statistics(heads: tf.keras.Model, units: dict[str, tf.Tensor], channels: dict[str, int]) -> None:
    """Initialises the moving averages of batch normalisation with the statistics of a batch.

    As features are frozen, the first batch is as good as any; and with few labels, a whole training is too short for
    averages that start at 0 and 1.
    """
    for layer, values in units.items():
        mean, variance = tf.nn.moments(tf.reshape(values, [-1, channels[layer]]), axes=[0])
        batch_norm = heads.get_layer(f"{layer}_bn")
        batch_norm.moving_mean.assign(mean)
        batch_norm.moving_variance.assign(variance)


def loss(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """The mean cross-entropy over the images that have a label; for several labels per image, the sum over labels.

    With a sum, the classifier of each label is independent of how many others there are.
    """
    costs, counts = cross_entropies(logits, labels)
    return tf.reduce_sum(tf.math.divide_no_nan(tf.reduce_sum(costs, axis=0), tf.reduce_sum(counts, axis=0)))


def _stop_if_not_finite(losses, step):
    for layer, loss in losses.items():
        if not math.isfinite(loss):
            raise InputError(f"{layer}: its loss is {loss} at step {step}; try a lower --learning_rate, and check "
                             "that its features are finite")  # fmt: skip


def _log(losses, rate, step):
    for layer, loss in losses.items():
        tf.summary.scalar(f"loss/{layer}", loss, step)
    tf.summary.scalar("learning_rate", rate, step)
