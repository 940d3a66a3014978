"""Keras callbacks for everything but the training steps: progress bar, logs, pictures, probes, checkpoints, exports.

None of them reads a loss after every step, as the host would have to wait for the GPU, which then waits for the host.
"""

import contextlib
import gc
import logging
import math
import pathlib
import time
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from lci_tf.errors import InputError
from lci_tf.plotting import pictures
from lci_tf.pretraining import looks, optimizers
from lci_tf.pretraining.advice import Advice
from lci_tf.pretraining.players import Players
from lci_tf.runs import Run, preemption
from lci_tf.runs.checkpoints import Checkpoints

log = logging.getLogger("lci_tf")
_FIRST_MONTAGE = 100  # step of the first montage after the start
_SECONDS_BETWEEN_LOSSES = 1.0  # in the progress bar


class Recorder:
    """Writes numbers to `metrics.jsonl` and TensorBoard, pictures to files and TensorBoard; nothing without a run."""

    def __init__(self, run: Run | None):
        self._run = run
        self.is_kept = run is not None
        if run:
            self._writer = tf.summary.create_file_writer(str(run.path / "tensorboard"))

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


class _Callback(tf.keras.callbacks.Callback):
    """Gets its logs as tensors: if any callback does not, Keras reads all of them after every step."""

    def __init__(self) -> None:
        super().__init__()
        self._supports_tf_logs = True


class _OnSchedule(_Callback):
    """Acts after every `every` steps and after the last. Steps count from the very start, even in a resumed run."""

    def __init__(self, every: int, first_step: int, last_step: int):
        super().__init__()
        self._every, self._first_step, self._last_step = every, first_step, last_step
        self._next = (first_step // every + 1) * every

    def on_train_batch_end(self, batch, logs=None):
        step = self._first_step + batch + 1
        if self.acts_at(step):
            self._next = self.after(step)
            self.act(step)

    def acts_at(self, step: int) -> bool:
        return step >= self._next or step == self._last_step

    def after(self, step: int) -> int:
        """The step at which to act next."""
        return (step // self._every + 1) * self._every

    def act(self, step: int) -> None:
        raise NotImplementedError


class ProgressBar(_Callback):
    """Shows images per second, the time left, and, read once a second, the loss of C, or of D if there is no C."""

    def __init__(self, first_step: int, last_step: int, batch_size: int):
        super().__init__()
        self._options = {"initial": first_step, "total": last_step, "unit": " images", "unit_scale": batch_size}
        self._done, self._next_loss_at = first_step, 0.0
        self._bar: tqdm | None = None

    def on_train_begin(self, logs=None):
        self._bar = tqdm(desc="pre-training", smoothing=0.05, dynamic_ncols=True, **self._options)

    def on_train_batch_end(self, batch, logs=None):
        step = self._options["initial"] + batch + 1
        if self._bar is not None:
            if time.monotonic() >= self._next_loss_at or step == self._options["total"]:
                loss = next((f"{name.removeprefix('loss/')} {float(value):.3f}" for name, value in logs.items()), "")
                self._bar.set_postfix_str(loss, refresh=False)
                self._next_loss_at = time.monotonic() + _SECONDS_BETWEEN_LOSSES
            self._bar.update(step - self._done)
        self._done = step

    def close(self) -> None:
        """Must be called however the training ends, so that later output begins on a new line."""
        if self._bar is not None:
            self._bar.close()


class StopIfNotFinite(_Callback):
    """Stops a training that has diverged, before anything of it is saved. Must precede the callbacks that write.

    Looks at the losses only when one of `writers` acts. As they are means since the last log, and a mean stays infinite
    or NaN, nothing is missed.
    """

    def __init__(self, first_step: int, checkpoints: Checkpoints, writers: Sequence[_OnSchedule]):
        super().__init__()
        self._first_step, self._checkpoints, self._writers = first_step, checkpoints, writers

    def on_train_batch_end(self, batch, logs=None):
        step = self._first_step + batch + 1
        if any(writer.acts_at(step) for writer in self._writers):
            self.check(step, logs)

    def check(self, step: int, logs: dict[str, tf.Tensor]) -> None:
        for name, value in logs.items():
            if not math.isfinite(value):
                kept = self._checkpoints.latest
                where = f"the last good checkpoint is {kept}" if kept else "there is no checkpoint yet"
                raise InputError(
                    f"{name} is {float(value)} by step {step}: the training has diverged; {where}. "
                    "Try lower learning rates, a larger --batch_size, or --mixed_precision=float32"
                )


class LogNumbers(_OnSchedule):
    """Logs means since the last time, and learning rates."""

    def __init__(self, every, first_step, last_step, recorder: Recorder, advice: Advice | None = None):
        super().__init__(every, first_step, last_step)
        self._recorder, self._advice = recorder, advice

    def act(self, step: int) -> None:
        learner: Players = self.model
        values = {name: float(mean) for name, mean in learner.means().items()}
        for player in learner.players:
            values[f"learning_rate/{player}"] = optimizers.learning_rate(learner.optimizer_of(player), step - 1)
        self._recorder.numbers(step, values)
        if self._advice:
            self._advice.note(step, values)
        learner.forget()


class Montages(_OnSchedule):
    """Draws what the training makes of the first batch, at the start, at steps 100, 200, 400, …, and at the end."""

    def __init__(self, first_step, last_step, batch, recorder: Recorder):
        super().__init__(_FIRST_MONTAGE, first_step, last_step)
        self._batch, self._recorder = batch, recorder
        self._next = _FIRST_MONTAGE
        while self._next <= first_step:
            self._next *= 2

    def on_train_begin(self, logs=None):
        if self._first_step == 0:
            self.act(0)

    def after(self, step: int) -> int:
        return max(self._next, 1) * 2 if step >= self._next else self._next

    def act(self, step: int) -> None:
        for name, picture in self.model.montages(self._batch["image"], self._batch["draws"]).items():
            self._recorder.picture(step, name, picture)


class Looks(_OnSchedule):
    """Measures progress at intervals: F's patches, the features, and, with labels, a probe's accuracy on them.

    At step 0, C is random, and measured after `calibrate_batch_norm`: without batch-norm statistics, a random network
    is worse than it need be, and would make what is learned look better.
    """

    def __init__(
        self,
        every: int,
        first_step: int,
        last_step: int,
        chosen: Sequence[looks.Look],
        probe: Callable | None,
        calibrate_batch_norm: Callable,
        recorder: Recorder,
        checkpoints: Checkpoints,
        left_out: pathlib.Path,
        is_unseen: bool,
    ):
        """`chosen` is from `looks.choose`; for `probe` see `training.train`, for a look that was left out see `Run`."""
        super().__init__(every, first_step, last_step)
        self._looks, self._probe, self._calibrate_batch_norm = chosen, probe, calibrate_batch_norm
        self._recorder, self._checkpoints, self._left_out = recorder, checkpoints, left_out
        self._is_unseen = is_unseen

    def on_train_begin(self, logs=None):
        if self._is_unseen:
            if self._first_step > 0:
                self._look(self._first_step)
            self._left_out.unlink(missing_ok=True)
        if self._first_step == 0 and self.model.classifier:
            statistics = self.model.classifier.non_trainable_weights
            before = [variable.numpy() for variable in statistics]
            self._calibrate_batch_norm()
            self._look(0)
            for variable, value in zip(statistics, before, strict=True):
                variable.assign(value)

    def act(self, step: int) -> None:
        try:
            self._look(step)
        except preemption.Preempted:  # the others still have their turn, then it ends; the next start looks first
            self._left_out.touch()

    def _look(self, step):
        # On all workers, as reading batch-norm statistics involves all of them.
        with preemption.at_once():
            numbers = {name: value for look in self._looks for name, value in look(self.model, step).items()}
            found = self._probe(self.model.classifier.get_layer("features"), step) if self._probe else {}
        if numbers and self._recorder.is_kept:
            log.info(looks.line(step, numbers))
        numbers |= {f"probe/{layer}_{kind}": value for layer, of in found.items() for kind, value in of.items()}
        self._recorder.numbers(step, numbers)
        if found and step > 0:
            score = self._mean_over_workers(max(result["ridge"] for result in found.values()))
            self._checkpoints.save_best(step, score)

    def _mean_over_workers(self, score):
        """The mean score, so that all workers, whose rounding may differ, decide alike whether to save together."""

        @tf.function  # else TensorFlow warns that it is slow
        def mean():
            context = tf.distribute.get_replica_context()
            return context.all_reduce(tf.distribute.ReduceOp.MEAN, tf.constant(score, tf.float64))

        strategy = self.model.distribute_strategy
        return float(strategy.experimental_local_results(strategy.run(mean))[0])


class SaveCheckpoints(_OnSchedule):
    """Saves checkpoints."""

    def __init__(self, every, first_step, last_step, checkpoints: Checkpoints):
        super().__init__(every, first_step, last_step)
        self._checkpoints = checkpoints

    def act(self, step: int) -> None:
        self._checkpoints.save(step)


class EndIfAsked(_Callback):
    """Ends a training on SIGTERM, after saving a checkpoint. Must come after all callbacks that act on a step."""

    def __init__(
        self,
        first_step: int,
        last_step: int,
        checkpoints: Checkpoints,
        finite: StopIfNotFinite,
        any_asked: Callable[[bool], bool] | None,
    ):
        super().__init__()
        self._first_step = self._step = first_step
        self._last_step, self._checkpoints, self._finite, self._any_asked = last_step, checkpoints, finite, any_asked
        self._logs: dict[str, tf.Tensor] = {}
        self._after_step: Callable[[], None] | None = None

    @contextlib.contextmanager
    def watching(self):
        """A context for `fit`."""
        with preemption.kept_by(self._save, self._any_asked) as self._after_step:
            yield

    def _save(self):
        self._finite.check(self._step, self._logs)
        self._checkpoints.save(self._step)
        return f"at step {self._step} of {self._last_step}"

    def on_train_batch_end(self, batch, logs=None):
        self._step, self._logs = self._first_step + batch + 1, logs
        if self._after_step is not None:
            self._after_step()


class Export(_OnSchedule):
    """Saves a checkpoint and has the chief export it."""

    def __init__(self, every, first_step, last_step, checkpoints: Checkpoints, export: Callable | None, run: Run):
        super().__init__(every, first_step, last_step)
        self._checkpoints, self._export, self._run = checkpoints, export, run

    def act(self, step: int) -> None:
        self._checkpoints.save(step)
        if self._export and not preemption.is_asked():
            with contextlib.suppress(preemption.Preempted), preemption.at_once():  # the next start exports it instead
                self._export(self._run, step)
            gc.collect()  # networks are circles of references, of which Python would keep several
