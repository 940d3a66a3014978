"""`--dry_run`: shows before a long training what C will see, how large everything is, and how long it will take."""

import pathlib
import re
import resource
import sys
import time

import tensorflow as tf

from lci_tf.data.input_report import InputReport
from lci_tf.data.source import Source
from lci_tf.files import replace_file
from lci_tf.plotting import pictures
from lci_tf.pretraining import batches, needed_memory, training
from lci_tf.training import memory

_EXECUTIONS = 3  # timed calls of the train function


def look(
    folder: pathlib.Path,
    source: Source,
    plan: training.Plan,
    strategy: tf.distribute.Strategy,
    report: InputReport,
    heading: str,
) -> None:
    """Writes the pictures of step 0 to `folder`, and prints sizes, and time and memory measured on a few steps.

    Everything that is printed, starting with `heading`, is also written to `dry_run.txt`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines = []

    def tell(line):
        print(line)
        lines.append(line)

    tell(heading)
    with strategy.scope():
        learner = training.build(plan)
    needed = needed_memory.estimate(learner, plan.settings, strategy)
    tell(f"  estimate         {needed}")
    memory.require(needed)
    training.load_given_weights(learner, plan)

    def make(worker, start_step=0):
        made = learner.transforms
        return batches.training_batches(source, plan.settings, made, plan.seed, report, start_step, worker)

    with report.one_line_errors():
        shown = training.first_rows(make)
        for name, picture in learner.montages(shown["image"], shown["draws"]).items():
            path = folder / f"{name}.png"
            pictures.save(path, picture)
            tell(f"  {name:16s} {path}")
        for name, model in (("C", learner.classifier), ("F", learner.inpainter), ("D", learner.discriminator)):
            if model is not None:
                tell(f"  parameters of {name}  {model.count_params():,}")
        if learner.labels:
            tell(f"  classes          {', '.join(learner.labels)}")
        seconds = _seconds_per_step(learner, iter(batches.distributed(strategy, make)), plan.steps_per_execution)
    left = plan.steps * seconds
    tell(f"  speed            {plan.settings.batch_size / seconds:,.0f} images/s, {seconds:.2f} s per step")
    tell(f"  time             {plan.steps:,} steps in about {_written(left)}")
    tell(f"  memory           {_peak_memory() / 2**30:.1f} GiB at most in these steps")
    replace_file(folder / "dry_run.txt", "\n".join(lines) + "\n")


def _seconds_per_step(learner, batches, steps_per_execution):
    execute = learner.make_train_function()  # the same as in `fit`
    execute(batches)  # compiles
    start = time.perf_counter()
    for _ in range(_EXECUTIONS):
        tf.nest.map_structure(lambda value: value.numpy(), execute(batches))
    return (time.perf_counter() - start) / (_EXECUTIONS * steps_per_execution)


def _peak_memory() -> int:
    """Peak memory in bytes, of the fullest GPU or else of this process."""
    gpus = tf.config.list_logical_devices("GPU")
    if gpus:
        return max(tf.config.experimental.get_memory_info(gpu.name)["peak"] for gpu in gpus)
    status = pathlib.Path("/proc/self/status")
    if status.exists():  # on Linux, `getrusage` inherits the peak of the parent process
        return int(re.findall(r"VmHWM:\s*(\d+) kB", status.read_text())[0]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # kibibytes, but bytes on a Mac


def _written(seconds):
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds > 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} seconds"
