"""What happens beside the training steps: a progress bar, logs, pictures, probes, checkpoints."""

import logging
import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from lci_tf.errors import InputError
from lci_tf.plotting import pictures
from lci_tf.pretraining import optimizers
from lci_tf.pretraining.players import Players
from lci_tf.runs.checkpoints import Checkpoints
from lci_tf.runs.run import Run

log = logging.getLogger("lci_tf")
_FIRST_MONTAGE = 100  # steps


class Recorder:
    """Numbers to `metrics.jsonl` and TensorBoard, pictures to files and TensorBoard. Without a run, to nowhere."""

    def __init__(self, run: Run | None):
        self._run = run
        self._writer = tf.summary.create_file_writer(str(run.path / "tensorboard")) if run else None

    def numbers(self, step: int, values: dict[str, float]) -> None:
        if self._run:
            self._run.log(step, values)
            with self._writer.as_default(step):
                for name, value in values.items():
                    tf.summary.scalar(name, value)
            self._writer.flush()

    def picture(self, step: int, name: str, picture: np.ndarray) -> None:
        if self._run:
            pictures.save(self._run.path / "montages" / f"{name}_{step:07d}.png", picture)
            with self._writer.as_default(step):
                tf.summary.image(name, picture[np.newaxis])
            self._writer.flush()


class _OnSchedule(tf.keras.callbacks.Callback):
    """Acts after every so many steps, and after the last. Steps are counted from the very start of the training."""

    def __init__(self, every: int, first_step: int, last_step: int):
        super().__init__()
        self._every, self._first_step, self._last_step = every, first_step, last_step
        self._next = (first_step // every + 1) * every

    def on_train_batch_end(self, batch, logs=None):
        step = self._first_step + batch + 1
        if step >= self._next or step == self._last_step:
            self._next = self.after(step)
            self.act(step)

    def after(self, step: int) -> int:
        """The step to act at next."""
        return (step // self._every + 1) * self._every

    def act(self, step: int) -> None:
        raise NotImplementedError


class ProgressBar(tf.keras.callbacks.Callback):
    """Images per second, the time left, and the loss of C, or of D where there is no C."""

    def __init__(self, first_step: int, last_step: int, batch_size: int):
        super().__init__()
        self._options = {"initial": first_step, "total": last_step, "unit": " images", "unit_scale": batch_size}
        self._done = first_step
        self._bar = None

    def on_train_begin(self, logs=None):
        self._bar = tqdm(desc="pre-training", smoothing=0.05, dynamic_ncols=True, **self._options)

    def on_train_batch_end(self, batch, logs=None):
        step = self._options["initial"] + batch + 1
        loss = next((f"{name.removeprefix('loss/')} {value:.3f}" for name, value in logs.items()), "")
        self._bar.set_postfix_str(loss, refresh=False)
        self._bar.update(step - self._done)
        self._done = step

    def close(self):
        """To be called however the training ends: what is printed then begins a line of its own."""
        if self._bar:
            self._bar.close()


class StopIfNotFinite(tf.keras.callbacks.Callback):
    """Ends a run that is beyond help, before anything of it is kept. Must come before what writes."""

    def __init__(self, first_step: int, checkpoints: Checkpoints):
        super().__init__()
        self._first_step, self._checkpoints = first_step, checkpoints

    def on_train_batch_end(self, batch, logs=None):
        for name, value in logs.items():
            if not math.isfinite(value):
                kept = self._checkpoints.latest
                where = f"the last good checkpoint is {kept}" if kept else "there is no checkpoint yet"
                raise InputError(
                    f"{name} is {value} at step {self._first_step + batch + 1}: the training has diverged; {where}. "
                    "Try lower learning rates, a larger --batch_size, or --mixed_precision=float32"
                )


class LogNumbers(_OnSchedule):
    """Means since the last time, and learning rates."""

    def __init__(self, every, first_step, last_step, recorder: Recorder):
        super().__init__(every, first_step, last_step)
        self._recorder = recorder

    def act(self, step):
        learner: Players = self.model
        values = {name: float(mean) for name, mean in learner.means().items()}
        for player in learner.players:
            values[f"learning_rate/{player}"] = optimizers.learning_rate(learner.optimizer_of(player), step - 1)
        self._recorder.numbers(step, values)
        learner.forget()


class Montages(_OnSchedule):
    """What the training makes of the first batch: at the start, at steps 100, 200, 400, …, and at the end."""

    def __init__(self, first_step, last_step, batch, recorder: Recorder):
        super().__init__(_FIRST_MONTAGE, first_step, last_step)
        self._batch, self._recorder = batch, recorder
        self._next = _FIRST_MONTAGE
        while self._next <= first_step:
            self._next *= 2

    def on_train_begin(self, logs=None):
        if self._first_step == 0:
            self.act(0)

    def after(self, step):
        return max(self._next, 1) * 2 if step >= self._next else self._next

    def act(self, step):
        for name, picture in self.model.montages(self._batch["image"], self._batch["draws"]).items():
            self._recorder.picture(step, name, picture)


class Probe(_OnSchedule):
    """Looks after the features: how well a linear classifier and nearest neighbours do on them.

    At step 0, of a random C, that is done after `see_images`: a random network whose batch normalisation has not seen
    any images is worse than it need be, and would flatter what is learned.
    """

    def __init__(
        self,
        every: int,
        first_step: int,
        last_step: int,
        probe: Callable,
        see_images: Callable,
        recorder: Recorder,
        checkpoints: Checkpoints,
    ):
        super().__init__(every, first_step, last_step)
        self._probe, self._see_images, self._recorder, self._checkpoints = probe, see_images, recorder, checkpoints

    def on_train_begin(self, logs=None):
        if self._first_step == 0:
            statistics = self.model.classifier.non_trainable_weights
            before = [variable.numpy() for variable in statistics]
            self._see_images()
            self.act(0)
            for variable, value in zip(statistics, before, strict=True):
                variable.assign(value)

    def act(self, step):
        found = self._probe(self.model.classifier.get_layer("features"), step)
        flat = {f"probe/{layer}_{kind}": value for layer, of in found.items() for kind, value in of.items()}
        self._recorder.numbers(step, flat)
        if step > 0:
            score = self._mean_over_workers(max(result["ridge"] for result in found.values()))
            self._checkpoints.save_best(step, score)

    def _mean_over_workers(self, score):
        """So that all decide alike whether to save, which takes all of them; their rounding may not be the same."""

        def mean():
            context = tf.distribute.get_replica_context()
            return context.all_reduce(tf.distribute.ReduceOp.MEAN, tf.constant(score, tf.float64))

        strategy = self.model.distribute_strategy
        return float(strategy.experimental_local_results(strategy.run(mean))[0])


class SaveCheckpoints(_OnSchedule):
    def __init__(self, every, first_step, last_step, checkpoints: Checkpoints):
        super().__init__(every, first_step, last_step)
        self._checkpoints = checkpoints

    def act(self, step):
        self._checkpoints.save(step)


class Export(_OnSchedule):
    """Saves a checkpoint and has the chief export it."""

    def __init__(self, every, first_step, last_step, checkpoints: Checkpoints, export: Callable | None, run: Run):
        super().__init__(every, first_step, last_step)
        self._checkpoints, self._export, self._run = checkpoints, export, run

    def act(self, step):
        self._checkpoints.save(step)
        if self._export:
            self._export(self._run, step)
