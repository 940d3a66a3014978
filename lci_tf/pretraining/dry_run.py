"""A look before a long training: what it will see, how large it is, and how long it will take."""

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
from lci_tf.pretraining import batches, training

_EXECUTIONS = 3


def look(
    folder: pathlib.Path,
    source: Source,
    plan: training.Plan,
    strategy: tf.distribute.Strategy,
    report: InputReport,
    heading: str,
) -> None:
    """Writes the pictures of step 0 to `folder`; prints the sizes of everything, and estimates from three steps.

    What is printed, below `heading`, is also written, to `dry_run.txt`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    told = []

    def tell(line):
        print(line)
        told.append(line)

    tell(heading)
    with strategy.scope():
        learner = training.build(plan)
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
    tell(f"  speed            {plan.settings.batch_size / seconds:,.0f} images/s, {seconds:.2f} s a step")
    tell(f"  time             {plan.steps:,} steps in about {_written(left)}")
    tell(f"  memory           {_peak_memory() / 2**30:.1f} GiB at most")
    replace_file(folder / "dry_run.txt", "\n".join(told) + "\n")


def _seconds_per_step(learner, batches, steps_per_execution):
    execute = learner.make_train_function()  # the one that `fit` calls
    execute(batches)  # compiles
    start = time.perf_counter()
    for _ in range(_EXECUTIONS):
        tf.nest.map_structure(lambda value: value.numpy(), execute(batches))
    return (time.perf_counter() - start) / (_EXECUTIONS * steps_per_execution)


def _peak_memory() -> int:
    """Bytes: of the fullest GPU, or of this process."""
    gpus = tf.config.list_logical_devices("GPU")
    if gpus:
        return max(tf.config.experimental.get_memory_info(gpu.name)["peak"] for gpu in gpus)
    status = pathlib.Path("/proc/self/status")
    if status.exists():  # on Linux `getrusage` has a peak that is inherited from whoever started the process
        return int(re.search(r"VmHWM:\s*(\d+) kB", status.read_text())[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # kibibytes, but bytes on a Mac


def _written(seconds):
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds > 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} seconds"
