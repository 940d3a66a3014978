"""A look before a long training: what it will see, how large it is, and how long it will take."""

import itertools
import pathlib
import time

import tensorflow as tf

from lci_tf import pictures
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import Source
from lci_tf.pretraining import batches, training

_STEPS = 3


def look(
    folder: str, source: Source, plan: training.Plan, strategy: tf.distribute.Strategy, report: InputReport
) -> None:
    """Writes the pictures of step 0 to `folder` and prints the sizes of everything, and estimates from three steps."""
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    with strategy.scope():
        learner = training.build(plan)
    training.load_given_weights(learner, plan)

    def make(worker, start_step=0):
        made = learner.transforms
        return batches.training_batches(source, plan.settings, made, plan.seed, report, start_step, worker)

    with report.one_line_errors():
        shown = training.first_rows(make)
        for name, picture in learner.montages(shown["image"], shown["draws"]).items():
            path = pathlib.Path(folder) / f"{name}.png"
            pictures.save(path, picture)
            print(f"  {name:16s} {path}")
        for name, model in (("C", learner.classifier), ("F", learner.inpainter), ("D", learner.discriminator)):
            if model is not None:
                print(f"  parameters of {name}  {model.count_params():,}")
        if learner.labels:
            print(f"  classes          {', '.join(learner.labels)}")
        seconds = _seconds_per_step(learner, iter(batches.distributed(strategy, make)), strategy)
    left = plan.steps * seconds
    print(f"  speed            {plan.settings.batch_size / seconds:,.0f} images/s, {seconds:.2f} s a step")
    print(f"  time             {plan.steps:,} steps in about {_written(left)}")
    print(f"  memory           {_peak_memory() / 2**30:.1f} GiB at most")


def _seconds_per_step(learner, batches, strategy):
    step = tf.function(lambda batch: strategy.run(learner.train_step, args=(batch,)))
    step(next(batches))  # compiles
    start = time.perf_counter()
    for batch in itertools.islice(batches, _STEPS):
        tf.nest.map_structure(lambda value: strategy.experimental_local_results(value)[0].numpy(), step(batch))
    return (time.perf_counter() - start) / _STEPS


def _peak_memory() -> int:
    """Bytes: of the fullest GPU, or of this process."""
    gpus = tf.config.list_logical_devices("GPU")
    if gpus:
        return max(tf.config.experimental.get_memory_info(gpu.name)["peak"] for gpu in gpus)
    status = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) * 1024


def _written(seconds):
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds > 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} seconds"
