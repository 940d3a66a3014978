"""The paper's training step on STL-10, beside a matrix product; from JPEGs beside a constant batch; and its parts."""

import pathlib
import statistics
import tempfile

from benchmarks import step_parts
from benchmarks.bench_flops import counted
from benchmarks.measuring import BATCH, compare_times, peak_memory, write_jpegs

SIDE = 4096  # of the matrices


def run(folder=None):
    with tempfile.TemporaryDirectory() as made:
        return _time_steps(pathlib.Path(folder) if folder else write_jpegs(pathlib.Path(made), 2_000))


def _time_steps(folder):
    import tensorflow as tf

    from lci_tf.config import presets
    from lci_tf.data.input_report import InputReport
    from lci_tf.data.sets.folder import open_folder
    from lci_tf.pretraining import batches, training
    from lci_tf.training import strategy

    plan = training.Plan(settings=presets.resolve("stl10", {}), steps=800)
    devices = strategy.choose()
    with devices.scope():
        learner = training.build(plan)
    source = open_folder(folder, split="all")
    report = InputReport(source)

    def make(worker):
        return batches.training_batches(source, plan.settings, learner.transforms, plan.seed, report, worker=worker)

    photos = iter(batches.distributed(devices, make))
    constant = next(photos)
    matrix = tf.random.normal([SIDE, SIDE])

    def wait_for(values):
        return [devices.experimental_local_results(v)[0].numpy() for v in values.values()]

    step = tf.function(lambda batch: devices.run(learner.train_step, args=(batch,)))
    product = tf.function(lambda: matrix @ matrix)
    times = compare_times(
        {
            "step, constant batch": lambda: wait_for(step(constant)),
            "matrix product": lambda: product().numpy(),
            "step, JPEGs": lambda: wait_for(step(next(photos))),
        },
        rounds=15,
    )
    steps, products, from_jpegs = times.values()
    operations = counted(plan.settings).traced
    rate = statistics.median(operations / s / (SIDE**3 / p) for s, p in zip(steps, products, strict=True))
    slower = statistics.median(j / c for j, c in zip(from_jpegs, steps, strict=True))
    print(f"  {BATCH / statistics.median(steps):.1f} images/s; {rate:.0%} of the product's rate (median of the rounds)")
    print(f"  from JPEGs a step takes {slower - 1:+.1%} (median of the rounds)")
    print(f"  {peak_memory():,.0f} MB of resident memory at most")
    networks = {learner.classifier.name: "C", learner.inpainter.name: "F", learner.discriminator.name: "D"}
    parts = step_parts.seconds(lambda: wait_for(step(constant)), networks)
    # What of the input the step waits for; the rest happens beside it.
    parts[step_parts.INPUT, ""] = max(slower - 1, 0.0) * sum(parts.values())
    print("where the time of a step goes")
    print(step_parts.chart(parts))
    return {"step / matrix product": rate, "constant batch / JPEGs": 1 / slower}
