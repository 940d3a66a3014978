"""Pre-trains C, together with F and D, on unlabelled images, and keeps everything in a run directory.

`--dataset=stl10` alone is the paper's training. Started again with the same `--run_dir`, it resumes where it stopped.
It uses all GPUs of the machine; for several machines, set TF_CONFIG, and put --run_dir on storage that they share."""

import dataclasses
from typing import Any

from absl import flags

from lci_tf import cli
from lci_tf.config import presets
from lci_tf.errors import InputError

_RUN, _SPEED = "Run", "Speed"

cli.define_data_flags()
cli.define_settings_flags()
flags.DEFINE_string(
    "run_dir",
    None,
    "run directory, for checkpoints, metrics and pictures [runs/DATASET or runs/DATASET_tiles]",
    module_name=_RUN,
)
flags.DEFINE_integer("steps", None, "number of training steps, instead of --epochs", lower_bound=1, module_name=_RUN)
flags.DEFINE_string("init_from", None, "run or checkpoint to take the initial weights from", module_name=_RUN)
cli.define_trust_run_flag(_RUN)
flags.DEFINE_boolean("inpainter_only", False, "train F and D only, without C", module_name=_RUN)
flags.DEFINE_string("inpainter", None, "run or checkpoint to take F from, which stays frozen", module_name=_RUN)
flags.DEFINE_boolean(
    "dry_run",
    False,
    "do not train; show settings, estimate memory and time, and write pictures to RUN_DIR_dry_run",
    module_name=_RUN,
)
flags.DEFINE_integer("log_every", 20, "steps between records of metrics", lower_bound=1, module_name=_RUN)
flags.DEFINE_integer("checkpoint_every", 500, "steps between checkpoints", lower_bound=1, module_name=_RUN)
flags.DEFINE_integer("keep_checkpoints", 3, "number of recent checkpoints to keep", lower_bound=1, module_name=_RUN)
flags.DEFINE_integer(
    "export_every", None, "steps between exports to RUN_DIR/export [no exports]", lower_bound=1, module_name=_RUN
)
flags.DEFINE_string(
    "probe_dataset", None, "labelled data set for probing the features during training", module_name=_RUN
)
flags.DEFINE_list("probe_data_dir", [], "folders of --probe_dataset, separated by commas", module_name=_RUN)
flags.DEFINE_float(
    "probe_every",
    10.0,
    "epochs between measurements of the features and of F's patches, with --probe_dataset also between probes",
    module_name=_RUN,
)
flags.DEFINE_integer(
    "probe_grid",
    4,
    "pool feature maps to this many squares along each side for probes; 1 pools globally",
    lower_bound=1,
    module_name=_RUN,
)
flags.DEFINE_boolean(
    "deterministic", False, "get the same weights every time, at some cost in speed", module_name=_SPEED
)
flags.DEFINE_boolean("cache", False, "decode all images once and keep them in memory", module_name=_SPEED)
flags.DEFINE_boolean("jit_compile", False, "compile the step with XLA; for GPUs", module_name=_SPEED)
flags.DEFINE_integer(
    "steps_per_execution", 1, "steps per call of the compiled function", lower_bound=1, module_name=_SPEED
)
flags.register_validator("probe_every", lambda value: 0 < value < float("inf"), "expected more than 0 epochs")

# Flags that, besides the settings, decide what is learned: they cannot change within a run. The others can.
_DEFINING = ("dataset", "data_dir", "split", "seed", "steps", "init_from", "inpainter_only", "inpainter")
_OTHERS = ("max_bad_images", "log_every", "checkpoint_every", "keep_checkpoints", "export_every", "probe_dataset",
           "probe_data_dir", "probe_every", "probe_grid", "deterministic", "cache", "jit_compile",
           "steps_per_execution")  # fmt: skip

# Flags that go into the training's plan as they are.
_PLANNED = ("seed", "init_from", "inpainter_only", "inpainter", "jit_compile", "steps_per_execution", "log_every",
            "checkpoint_every", "keep_checkpoints")  # fmt: skip


def main() -> None:
    flag = cli.FLAGS
    settings = cli.settings_from_flags()
    _check(flag, settings)
    if flag.deterministic:
        _make_deterministic(flag.seed)
    from lci_tf import data
    from lci_tf.data import cache
    from lci_tf.data.input_report import InputReport
    from lci_tf.data.source import IndexedSource, check_batch
    from lci_tf.evaluation.unlabelled import UnlabelledMeasures
    from lci_tf.pretraining import dry_run, training
    from lci_tf.runs import provenance
    from lci_tf.training import strategy

    devices = strategy.choose()
    settings.check(replicas=devices.num_replicas_in_sync)
    if flag.jit_compile and strategy.is_several_cpus(devices):
        raise InputError("--jit_compile: XLA cannot compile for several CPUs; leave it out, or train on one")
    cli.fetch_if_allowed(flag.dataset, flag.data_dir)
    if flag.probe_dataset:
        cli.fetch_if_allowed(flag.probe_dataset, flag.probe_data_dir)
    source = data.open_source(flag.dataset, flag.split, flag.data_dir)
    given = {f"--{name}": flag[name].value for name in (*_DEFINING, *_OTHERS)}
    setting_values = {f"--{name}": value for name, value in dataclasses.asdict(settings).items()}
    strategy.check_agreement(devices, {**setting_values, **given, "the images": provenance.of_images(source)})
    check_batch(settings.batch_size, source.name, source.split, source.count)
    is_stream = not isinstance(source, IndexedSource)
    if flag.cache:
        with InputReport(source).one_line_errors():
            source = cache.in_memory(source, settings.resize)
    planned: dict[str, Any] = {name: flag[name].value for name in _PLANNED}
    plan = training.Plan(settings=settings, steps=flag.steps or training.steps_of(settings, source), **planned)
    report = InputReport(source, flag.max_bad_images)
    run = _run_of(flag, settings)
    if flag.dry_run:
        folder = run.path.with_name(f"{run.path.name}_dry_run")
        heading = presets.describe(flag.dataset, settings)
        return dry_run.look(folder, source, plan, devices, report, heading)
    # A stream that is kept in memory is shuffled as a whole, so then --cache affects the result.
    defining = (*_DEFINING, "cache") if is_stream else _DEFINING
    run.begin(
        {**dataclasses.asdict(settings), **{name: flag[name].value for name in defining}},
        {name: flag[name].value for name in _OTHERS if name not in defining},
        is_chief=strategy.is_chief(devices),
    )
    probe = _quick_probe(flag, settings) if flag.probe_dataset else None
    # The length of an epoch of a stream is unknown: then measure only at the start and at the end.
    every = max(1, round(flag.probe_every * source.count / settings.batch_size)) if source.count else plan.steps
    during = training.During(
        probe=_logged(probe) if probe else None, probed=probe and provenance.digest(probe.question()),
        probe_every=every, held_out=probe.held_out if probe else None, measure=UnlabelledMeasures, export=_export,
        export_every=flag.export_every,
    )  # fmt: skip
    with strategy.ending_with_others(devices):
        training.train(run, source, plan, devices, report, during)
    if probe:
        _print_probes(run, probe.measure, is_random=not flag.init_from)
    print(f"Curves     tensorboard --logdir={run.path}")
    print(f"Pictures   {run.montages}")


def _check(flag, settings):
    """Refuses flags that do not go together, before TensorFlow is imported."""
    settings.check()
    cli.require_own(settings.transforms)
    cli.require_trust(init_from=flag.init_from, inpainter=flag.inpainter)
    if flag.inpainter_only or settings.trains_seams:
        why = "--transforms=tiles" if settings.trains_seams else "--inpainter_only"
        for name, verb in {"probe_dataset": "probe", "export_every": "export"}.items():
            if flag[name].value:
                raise InputError(f"--{name}: {why} trains no C, so there are no features to {verb}")
    if flag.probe_data_dir and not flag.probe_dataset:
        raise InputError("--probe_data_dir: needs --probe_dataset too, such as --probe_dataset=folder")
    if flag.run_dir == "":
        raise InputError("--run_dir: is empty; expected a folder, such as runs/mine")


def _run_of(flag, settings):
    from lci_tf.runs import Run

    tiles = "_tiles" * settings.trains_seams
    return Run(flag.run_dir or f"runs/{flag.dataset.replace('/', '_').replace(':', '_')}{tiles}")


def _print_probes(run, measure, is_random):
    """Compares the first probe, of random features if `is_random`, with the last."""
    probes = [record for record in run.metrics() if "probe/conv1_ridge" in record]
    if len(probes) < 2:
        return
    for kind, what in (
        ("ridge", "A linear classifier on the features"),
        ("knn", "Their 10 nearest neighbours"),
    ):
        layers = [name for name in probes[0] if name.startswith("probe/") and name.endswith(kind)]
        before, after = ([100 * record[name] for name in layers] for record in (probes[0], probes[-1]))
        print(f"{what} ({measure}, in percent)")
        print(" " * 10 + "".join(f"{name[6 : -len(kind) - 1]:>8s}" for name in layers) + "    best layer")
        first = "random" if is_random and probes[0]["step"] == 0 else f"step {probes[0]['step']}"
        for name, values in ((first, before), ("learned", after)):
            print(f"  {name:8s}" + "".join(f"{value:8.1f}" for value in values) + f"{max(values):14.1f}")
        print(f"  {max(after) - max(before):+.1f} points in the best layer")


def _make_deterministic(seed):
    import tensorflow as tf

    tf.keras.utils.set_random_seed(seed)
    tf.config.experimental.enable_op_determinism()


def _quick_probe(flag, settings):
    """The probe that measures the features at intervals during training."""
    from lci_tf.data import labelled
    from lci_tf.data.pipeline import Crops
    from lci_tf.evaluation.probe import quick_probe

    kinds = ("class", "multi-label")
    sources = labelled.open_labelled(flag.probe_dataset, flag.probe_data_dir, flag="--probe_dataset", kinds=kinds)
    crops = Crops(settings.crop_size, settings.resize)
    options = {"grid": flag.probe_grid, "seed": flag.seed, "max_bad_images": flag.max_bad_images}
    return quick_probe.QuickProbe(*sources, crops, **options)


def _logged(probe):
    """`probe.probe`, which also logs its results."""
    import logging

    from lci_tf.evaluation.probe import quick_probe

    def look(features, step):
        found = probe.probe(features)
        logging.getLogger("lci_tf").info("probe at step %d, in percent\n%s", step, quick_probe.table(found))
        return found

    return look


def _export(run, step):
    """Exports this step's checkpoint as the version of that number, unless that exists from before a resume."""
    import concurrent.futures

    from lci_tf.runs import trained
    from lci_tf.serving.export import exporting

    def export():
        exporting.export(trained.from_run(run.checkpoints / f"step-{step}"), run.path / "export", version=step)

    if not (run.path / "export" / str(step)).exists():
        # In another thread, outside the training's strategy, whose distributed variables would end up in the export.
        outside = concurrent.futures.ThreadPoolExecutor(1)
        try:
            outside.submit(export).result()
        finally:
            outside.shutdown(wait=False)  # on SIGTERM, nobody waits for it


if __name__ == "__main__":
    cli.run(main, __doc__)
