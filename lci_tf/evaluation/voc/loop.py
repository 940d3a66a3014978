"""The training loop of all tasks, with a progress bar, metrics, and checkpoints from which it resumes."""

import logging
import math
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf
from tqdm import tqdm

from lci_tf.errors import InputError
from lci_tf.runs import Run, preemption
from lci_tf.runs.checkpoints import Checkpoints
from lci_tf.training import memory

log = logging.getLogger("lci_tf")


def train(
    run: Run,
    objects: dict[str, Any],
    batches: Callable[[int], Iterable[Any]],
    take_step: Callable[[Any], dict[str, tf.Tensor]],
    iterations: int,
    batch_size: int,
    checkpoint_every: int = 1000,
    log_every: int = 20,
    check: Callable[[int], dict[str, float] | None] = lambda step: None,
    is_enough: Callable[[int], bool] = lambda step: False,
) -> int:
    """Trains for a number of iterations, from the run's last checkpoint if there is one.

    Args:
      run: only provides the paths of checkpoints, `metrics.jsonl` and TensorBoard; it need not have begun.
      objects: what checkpoints hold, by name.
      batches: from the number of the first step to endless batches, which depend only on the seed and the step.
      take_step: one update; returns what to log, among it "loss". The first checkpoint is written after an update, so
        that all variables exist by then.
      batch_size: images per step, for the progress bar.
      checkpoint_every: steps between checkpoints; there is another one at the end.
      log_every: steps between records of the metrics, which are means over these steps.
      check: is called after every step; returns further metrics, or None.
      is_enough: whether to stop after this step.

    Returns:
      The number of iterations so far, including those before a resume.
    """
    run.path.mkdir(parents=True, exist_ok=True)
    kept = Checkpoints(run, objects, keep=1)
    step = _resume(run, kept, iterations)
    writer = tf.summary.create_file_writer(str(run.tensorboard))
    bar = tqdm(desc="training", initial=step, total=iterations, unit=" images", unit_scale=batch_size, smoothing=0.05,
               dynamic_ncols=True)  # fmt: skip
    means = _Means()

    def save():
        kept.save(step)
        return f"at iteration {step} of {iterations}"

    with bar, writer.as_default(), memory.one_line_errors(), preemption.kept_by(save) as after_step:
        each = iter(batches(step))
        while step < iterations and not is_enough(step):
            means.add(take_step(next(each)))
            step += 1
            numbers = check(step) or {}
            if step % log_every == 0 or step == iterations:
                of_steps = means.take()
                _stop_if_not_finite(of_steps["loss"], step)
                bar.set_postfix({name: f"{value:.3g}" for name, value in of_steps.items()}, refresh=False)
                numbers = of_steps | numbers
            _log(run, step, numbers)
            bar.update()
            if step % checkpoint_every == 0:
                kept.save(step)
            after_step()
        kept.save(step)
    return step


def _resume(run, kept, iterations) -> int:
    """Restores the last checkpoint, if there is one. Returns its step, or 0."""
    step = kept.restore_latest() or 0
    run.forget_after(step)
    if step:
        log.info("resuming at iteration %d of %d", step, iterations)
    return step


class _Means:
    """The means of metrics over the steps since they were last taken."""

    def __init__(self):
        self._sums: dict[str, tf.Tensor] = {}
        self._steps = 0

    def add(self, numbers: dict[str, tf.Tensor]) -> None:
        for name, value in numbers.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
        self._steps += 1

    def take(self) -> dict[str, float]:
        means = {name: float(total) / self._steps for name, total in self._sums.items()}
        self._sums, self._steps = {}, 0
        return means


def _stop_if_not_finite(loss, step):
    if not math.isfinite(loss):
        raise InputError(f"the loss is {loss} at iteration {step}: the training has diverged; "
                         "try a lower --learning_rate")  # fmt: skip


def _log(run, step, numbers):
    """Writes metrics, if there are any, to `metrics.jsonl` and TensorBoard."""
    if numbers:
        run.log(step, numbers)
    for name, value in numbers.items():
        tf.summary.scalar(name, value, step)
