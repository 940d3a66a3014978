"""Linear classifiers, *heads*, on all layers of a frozen network, trained by SGD in one pass over the data."""

import functools
import itertools
import math
import pathlib
from collections.abc import Callable

import tensorflow as tf
from tqdm import tqdm

from lci_tf.config.probe_protocols import ProbeProtocol
from lci_tf.data.source import LabelKind
from lci_tf.errors import InputError
from lci_tf.evaluation.probe.frozen import FrozenFeatures
from lci_tf.evaluation.probe.head_evaluation import Found, evaluate_heads
from lci_tf.evaluation.probe.tasks import Task
from lci_tf.runs.checkpoints import Checkpoints
from lci_tf.runs.run import Run

_LOG_EVERY = 50  # steps; an accelerator is waited for only then


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
    """Trains a head on each layer, from the folder's last checkpoint if there is one.

    Args:
      folder: for checkpoints and TensorBoard's logs.
      seed: of the initial weights.

    Returns:
      The heads: a model from units to logits [n, classes], both by layer.
    """
    steps = steps_of(protocol, task.count)
    tf.keras.utils.set_random_seed(seed)
    heads = build_heads(features.units, len(task.label_names), protocol)
    rates = learning_rates(protocol, steps)
    optimizer = tf.keras.optimizers.legacy.SGD(rates, protocol.momentum, nesterov=True)
    means = {layer: tf.keras.metrics.Mean() for layer in features.layers}
    step = training_step(features, heads, optimizer, task.label_kind, means)
    # `Run` lends its paths alone. Nothing is begun, so that no command will take the folder for a pre-training.
    checkpoints = Checkpoints(Run(folder), {"heads": heads, "optimizer": optimizer}, keep=2)
    first = checkpoints.restore_latest() or 0
    if first >= steps:
        return heads
    writer = tf.summary.create_file_writer(str(folder / "tensorboard"))
    bar = tqdm(initial=first, total=steps, desc="linear probe", unit=" images", unit_scale=protocol.batch_size,
               smoothing=0.05, dynamic_ncols=True)  # fmt: skip
    with bar, writer.as_default():
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
    return heads


def training_step(
    features: FrozenFeatures,
    heads: tf.keras.Model,
    optimizer: tf.keras.optimizers.legacy.Optimizer,
    label_kind: LabelKind,
    means: dict[str, tf.keras.metrics.Mean],
) -> Callable[[tf.Tensor, tf.Tensor], None]:
    """What is done with a batch of images and labels: the network once, then all heads. `means` are told the losses."""
    loss_of = loss_of_classes if label_kind == "class" else loss_of_several

    @tf.function
    def step(images, labels):
        units = features(images)
        if optimizer.iterations == 0:
            set_statistics(heads, units)
        with tf.GradientTape() as tape:
            logits = heads(units, training=True)
            losses = {layer: loss_of(logits[layer], labels) for layer in features.layers}
            # Heads share no weights, so that the gradient of the sum is that of each.
            total = tf.add_n([*losses.values(), *heads.losses])
        weights = heads.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(total, weights), weights, strict=True))
        for layer, loss in losses.items():
            means[layer].update_state(loss)

    return step


def steps_of(protocol: ProbeProtocol, count: int) -> int:
    return max(1, math.ceil(protocol.epochs * count / protocol.batch_size))


def learning_rates(protocol: ProbeProtocol, steps: int) -> tf.keras.optimizers.schedules.LearningRateSchedule:
    """The rate of a step, counted from 0."""
    shares, rates = zip(*protocol.learning_rates, strict=True)
    last_before = [round(share * steps) - 1 for share in shares[1:]]
    return tf.keras.optimizers.schedules.PiecewiseConstantDecay(last_before, list(rates))


def build_heads(units: dict[str, int], classes: int, protocol: ProbeProtocol) -> tf.keras.Model:
    """From units [n, units] to logits [n, classes], by layer; `losses` are the heads' L2, each its own."""
    inputs, logits = {}, {}
    for layer, count in units.items():
        inputs[layer] = tf.keras.Input([count], name=layer)
        standardised = tf.keras.layers.BatchNormalization(
            momentum=protocol.bn_momentum, center=False, scale=False, name=f"{layer}_bn"
        )(inputs[layer])
        l2 = tf.keras.regularizers.L2(protocol.l2)
        logits[layer] = tf.keras.layers.Dense(classes, kernel_regularizer=l2, name=f"{layer}_fc")(standardised)
    return tf.keras.Model(inputs, logits, name="heads")


def set_statistics(heads: tf.keras.Model, units: dict[str, tf.Tensor]) -> None:
    """Has the moving averages of batch normalisation begin with those of a batch.

    Features are frozen, so that there is nothing to forget; and where labels are few, a whole training is too short for
    averages that begin with 0 and 1.
    """
    for layer, values in units.items():
        mean, variance = tf.nn.moments(values, axes=[0])
        batch_norm = heads.get_layer(f"{layer}_bn")
        batch_norm.moving_mean.assign(mean)
        batch_norm.moving_variance.assign(variance)


def loss_of_classes(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Mean cross-entropy of logits [n, classes] and labels, int64 [n], over the images that have one."""
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(labels, 0), logits)
    return _mean_where(labels >= 0, each)


def loss_of_several(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Sigmoid cross-entropy of logits [n, classes] and labels, int8 [n, classes], without the entries of -1.

    The sum over the classes of the mean over images: so that every class is a classifier of its own, which learns the
    same whatever other classes there are.
    """
    each = tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(labels == 1, logits.dtype), logits)
    return tf.reduce_sum(_mean_where(labels >= 0, each))


def _mean_where(counts, values):
    """Over the first axis."""
    counts = tf.cast(counts, values.dtype)
    return tf.math.divide_no_nan(tf.reduce_sum(counts * values, axis=0), tf.reduce_sum(counts, axis=0))


def _stop_if_not_finite(losses, step):
    for layer, loss in losses.items():
        if not math.isfinite(loss):
            raise InputError(f"{layer}: its loss is {loss} at step {step}; try a lower --learning_rate, and look "
                             "whether its features are finite")  # fmt: skip


def _log(losses, rate, step):
    for layer, loss in losses.items():
        tf.summary.scalar(f"loss/{layer}", loss, step)
    tf.summary.scalar("learning_rate", rate, step)
