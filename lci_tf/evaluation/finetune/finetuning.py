"""The training loop of fine-tuning, which can be resumed: trains a network with a new head on labels."""

import dataclasses
import itertools
import logging
import math

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from lci_tf.config.finetune_protocols import FinetuneProtocol
from lci_tf.data import draws, pipeline
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import Source, count_of
from lci_tf.errors import InputError
from lci_tf.evaluation import label_losses, metrics
from lci_tf.evaluation.finetune import augmentation
from lci_tf.evaluation.finetune.best_weights import BestWeights
from lci_tf.evaluation.finetune.classifier import Tester
from lci_tf.imaging.images import unscale
from lci_tf.plotting import pictures
from lci_tf.runs import Run, preemption
from lci_tf.runs.checkpoints import Checkpoints
from lci_tf.training.adamw import EPSILON, AdamW, cosine

log = logging.getLogger("lci_tf")
_FINAL_RATE = 1e-3  # relative to the initial rate, like the paper's 3e-7 and 3e-4
_CALIBRATION_BATCHES = 20
_SHOWN = 32  # images in `training_images.png`


@dataclasses.dataclass(frozen=True)
class Part:
    """Labelled images, and the report of those that cannot be read."""

    source: Source
    report: InputReport


class FineTuning:
    """A classifier and everything needed to train it.

    Example:
      with strategy.scope():
          network = classifier.build(model, classes=10, label_kind="class", crop_size=64)
      tuning = FineTuning(network, model.maps, train, validation, crops, PROTOCOLS["few_labels"], strategy)
      tuning.train(run)
    """

    def __init__(
        self,
        network: tf.keras.Model,
        pretrained: tf.keras.Model | None,
        train: Part,
        validation: Part | None,
        crops: pipeline.Crops,
        protocol: FinetuneProtocol,
        strategy: tf.distribute.Strategy,
        seed: int = 0,
    ):
        """Prepares the training; the number of training images must be known.

        Args:
          network: the classifier, see `classifier.build`, created inside the strategy's scope.
          pretrained: the part of it that is trained with the learning rate for pre-trained layers; None if none is.
          train: images to train on.
          validation: images to choose the best weights by; None to use the last weights.
          crops: size of the crops.
          protocol: how to train.
          strategy: devices to train on.
          seed: random seed.
        """
        self._network, self._crops, self._protocol, self._strategy = network, crops, protocol, strategy
        self._train, self._seed = train, seed
        replicas = strategy.num_replicas_in_sync
        count = count_of(train.source)
        self._batch_size = max(1, min(protocol.batch_size, count) // replicas) * replicas
        self._epoch = math.ceil(count / self._batch_size)  # in steps
        self._steps = protocol.epochs * self._epoch
        with strategy.scope():
            self._learners = self._assign_optimisers(pretrained)
        self._loss = tf.keras.metrics.Mean()  # over the epoch so far
        self._predict: Tester | None = None
        self.best: BestWeights | None = None
        if validation:
            self._predict = Tester(network, validation.source, crops, self._batch_size, validation.report, again=True)
            self.best = BestWeights(network)

    def _assign_optimisers(self, pretrained):
        """Pairs (optimiser, its variables): for the pre-trained layers, if any are trained, and for the new ones."""
        old = pretrained.trainable_variables if pretrained else []
        of_old = {variable.ref() for variable in old}
        new = [variable for variable in self._network.trainable_variables if variable.ref() not in of_old]

        def adamw(rate):
            # The parameters of pre-training, which the paper also uses for fine-tuning.
            schedule = cosine(rate, _FINAL_RATE * rate, self._steps)
            return AdamW(schedule, self._protocol.weight_decay, beta_1=0.5, beta_2=0.99, epsilon=EPSILON)

        rates = (self._protocol.pretrained_learning_rate, self._protocol.learning_rate)
        return [(adamw(rate), variables) for rate, variables in zip(rates, (old, new), strict=True) if variables]

    def train(self, run: Run, checkpoint_every: int = 500) -> int:
        """Trains until the last epoch, or until validation stops improving, and then restores the best weights.

        It resumes from the run's last checkpoint if there is one; the result is that of an uninterrupted training.

        Args:
          run: only provides the paths of checkpoints, `metrics.jsonl` and TensorBoard; it need not have begun.
          checkpoint_every: steps between checkpoints; there is another one at the end.

        Returns:
          The number of epochs.
        """
        run.path.mkdir(parents=True, exist_ok=True)
        checkpoints = Checkpoints(run, self._state(), keep=1)
        step = checkpoints.restore_latest() or 0
        run.forget_after(step - self._epoch_is_to_end(step))
        batches = self._batches(step)
        distributed = self._strategy.experimental_distribute_dataset(batches)
        if step:
            log.info("resuming at step %d of %d", step, self._steps)
        else:
            with self._train.report.one_line_errors():
                pictures.save(run.path / "training_images.png", self._picture(next(iter(batches))))
                self._calibrate_batch_norm(itertools.islice(distributed, _CALIBRATION_BATCHES))
        writer = tf.summary.create_file_writer(str(run.tensorboard))
        take_step = tf.function(self._step)
        bar = tqdm(desc="fine-tuning", initial=step, total=self._steps, unit=" images", unit_scale=self._batch_size,
                   smoothing=0.05, dynamic_ncols=True)  # fmt: skip

        def save():
            checkpoints.save(step)
            return f"at step {step} of {self._steps}"

        with bar, writer.as_default(), self._train.report.one_line_errors(), preemption.kept_by(save) as after_step:
            batches = iter(distributed)
            while True:
                if self._epoch_is_to_end(step):
                    numbers = self._end_epoch(step)
                    run.log(step, numbers)
                    for name, value in numbers.items():
                        tf.summary.scalar(name, value, step)
                    bar.set_postfix({name: f"{value:.3f}" for name, value in numbers.items()})
                if step == self._steps or self._is_out_of_patience(step):
                    break
                take_step(next(batches))
                step += 1
                bar.update()
                if step % checkpoint_every == 0:
                    checkpoints.save(step)
                after_step()
            checkpoints.save(step)
        if self.best:
            self.best.give_to(self._network)
        return step // self._epoch

    def _state(self):
        """Everything that a checkpoint must save, by name."""
        held = {f"optimizer_{i}": optimizer for i, (optimizer, _) in enumerate(self._learners)}
        if self.best:
            held["best"] = self.best
        return {"network": self._network, "loss": self._loss, **held}

    def _batches(self, first_step) -> tf.data.Dataset:
        """Batches of `"image"`, `"label"` and `"draws"`, which depend only on the seed and the step."""
        crops, size = self._crops, self._batch_size
        if self._protocol.strong_augmentation:
            crops = pipeline.Crops(augmentation.loaded_size(crops.crop_size, crops.resize), crops.resize)
        batches = pipeline.training_batches(
            self._train.source, crops, size, self._seed, self._train.report, start_step=first_step
        )

        def with_draws(step, batch):
            drawn = draws.uniform(self._seed, draws.TRANSFORMATION, step, size, (augmentation.DRAWS,))
            return {"image": batch["image"], "label": batch["label"], "draws": drawn}

        return tf.data.Dataset.zip((tf.data.Dataset.counter(first_step), batches)).map(with_draws).prefetch(2)

    def _augmented(self, batch):
        if not self._protocol.strong_augmentation:
            return batch["image"]
        return augmentation.augment(batch["image"], batch["draws"], self._crops.crop_size)

    def _picture(self, batch) -> np.ndarray:
        """A picture of training images as the network sees them."""
        return pictures.grid(unscale(self._augmented(batch)[:_SHOWN]).numpy(), columns=8)

    def _calibrate_batch_norm(self, batches):
        """Initialises batch-norm statistics, except of frozen layers, with the mean statistics of some batches.

        Otherwise, moving averages of new layers would not forget their initial values in a training of a hundred steps.
        """
        norms = [m for m in self._network.submodules if isinstance(m, tf.keras.layers.BatchNormalization)]
        before = [norm.momentum for norm in norms]

        @tf.function
        def run_in_training_mode(batch, momentum):
            for norm in norms:
                norm.momentum = momentum
            self._strategy.run(lambda part: self._network(self._augmented(part), training=True), args=(batch,))

        for seen, batch in enumerate(batches):
            run_in_training_mode(batch, tf.constant(seen / (seen + 1)))  # keeps the mean of all batches so far
        for norm, momentum in zip(norms, before, strict=True):
            norm.momentum = momentum

    def _step(self, batch):
        loss = self._strategy.run(self._step_on_replica, args=(batch,))
        self._loss.update_state(self._strategy.reduce(tf.distribute.ReduceOp.SUM, loss, axis=None))

    def _step_on_replica(self, batch):
        """One update. Returns this replica's share of the mean loss over the global batch."""
        with tf.GradientTape() as tape:
            logits = self._network(self._augmented(batch), training=True)["logits"]
            costs, counts = label_losses.cross_entropies(logits, batch["label"])
            total = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.reduce_sum(counts))
            loss = tf.reduce_sum(costs) / tf.maximum(total, 1.0)
        gradients = tape.gradient(loss, [variables for _, variables in self._learners])
        for (optimizer, variables), values in zip(self._learners, gradients, strict=True):
            optimizer.apply_gradients(zip(values, variables, strict=True))
        return loss

    def _epoch_is_to_end(self, step) -> bool:
        """Whether a step is the last of its epoch, which has not been logged yet."""
        return step % self._epoch == 0 and float(self._loss.count) > 0

    def _end_epoch(self, step) -> dict[str, float]:
        """Validates, keeps the weights if they are the best, and returns what to log."""
        numbers = {"loss": float(self._loss.result())}
        if not math.isfinite(numbers["loss"]):
            raise InputError(f"the loss is {numbers['loss']} at step {step}: the training has diverged; try lower "
                             "--learning_rate and --pretrained_learning_rate")  # fmt: skip
        if self.best and self._predict:
            with preemption.at_once():  # the step is kept, and the next start ends its epoch
                probabilities, labels = self._predict("validating")
            probabilities = probabilities[:, 0]
            found = metrics.evaluate(probabilities, labels)
            loss = label_losses.mean_cross_entropy(probabilities, labels)
            numbers |= {f"validation/{found.kind.replace(' ', '_')}": found.value, "validation/loss": loss}
            self.best.consider(self._network, step, found.value, loss)
        self._loss.reset_state()
        return numbers

    def _is_out_of_patience(self, step) -> bool:
        if not self.best:
            return False
        return step - int(self.best.step) >= self._protocol.patience * self._epoch

    @property
    def best_epoch(self) -> int | None:
        """The epoch whose weights were the best; None without validation."""
        return int(self.best.step) // self._epoch if self.best else None
