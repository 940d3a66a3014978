"""Pre-trains C, with F and D, on unlabelled images, and keeps everything in a run directory.

`--dataset=stl10` alone is the paper's training. Starting with the same `--run_dir` goes on where it was left. All GPUs
of the machine are used; several machines as TF_CONFIG tells them, with --run_dir on storage that they share."""

import dataclasses

from absl import flags

from lci_tf import cli
from lci_tf.config import presets
from lci_tf.errors import InputError

_RUN, _SPEED = "Run", "Speed"

cli.define_data_flags()
cli.define_settings_flags()
flags.DEFINE_string(
    "run_dir", None, "where everything of the run goes [runs/DATASET or runs/DATASET_tiles]", module_name=_RUN
)
flags.DEFINE_integer("steps", None, "of the whole training, instead of --epochs", lower_bound=1, module_name=_RUN)
flags.DEFINE_string("init_from", None, "a run or checkpoint whose weights to start from", module_name=_RUN)
flags.DEFINE_boolean("inpainter_only", False, "train F and D alone, without C", module_name=_RUN)
flags.DEFINE_string("inpainter", None, "a run or checkpoint whose F to use, frozen", module_name=_RUN)
flags.DEFINE_boolean(
    "dry_run",
    False,
    "write pictures of step 0 to RUN_DIR_dry_run, show settings, estimate memory and time",
    module_name=_RUN,
)
flags.DEFINE_integer("log_every", 20, "steps between two records of metrics", lower_bound=1, module_name=_RUN)
flags.DEFINE_integer("checkpoint_every", 500, "steps between two checkpoints", lower_bound=1, module_name=_RUN)
flags.DEFINE_integer("keep_checkpoints", 3, "how many of the last to keep", lower_bound=1, module_name=_RUN)
flags.DEFINE_integer(
    "export_every", None, "steps between two exports to RUN_DIR/export", lower_bound=1, module_name=_RUN
)
flags.DEFINE_string("probe_dataset", None, "labelled images to probe the features with meanwhile", module_name=_RUN)
flags.DEFINE_list("probe_data_dir", [], "where they are", module_name=_RUN)
flags.DEFINE_float("probe_every", 10.0, "epochs between two probes", module_name=_RUN)
flags.DEFINE_integer(
    "probe_grid", 4, "maps are pooled to so many squares along each side; 1: globally", lower_bound=1, module_name=_RUN
)
flags.DEFINE_boolean("deterministic", False, "the same weights every time, at some cost of speed", module_name=_SPEED)
flags.DEFINE_boolean("cache", False, "decode all images once and keep them in memory", module_name=_SPEED)
flags.DEFINE_boolean("jit_compile", False, "compile the step with XLA; for GPUs", module_name=_SPEED)
flags.DEFINE_integer(
    "steps_per_execution", 1, "steps per call of the compiled function", lower_bound=1, module_name=_SPEED
)
flags.register_validator("probe_every", lambda value: 0 < value < float("inf"), "expected more than 0 epochs")

# Flags that decide what is learned, beside the settings: the same run must have the same. The others may change.
_DEFINING = ("dataset", "data_dir", "split", "seed", "steps", "init_from", "inpainter_only", "inpainter")
_OTHERS = ("max_bad_images", "log_every", "checkpoint_every", "keep_checkpoints", "export_every", "probe_dataset",
           "probe_data_dir", "probe_every", "probe_grid", "deterministic", "cache", "jit_compile",
           "steps_per_execution")  # fmt: skip


def main():
    flag = cli.FLAGS
    settings = cli.settings_from_flags()
    settings.check()
    if flag.inpainter_only or settings.trains_seams:
        why = "--transforms=tiles" if settings.trains_seams else "--inpainter_only"
        for name, verb in {"probe_dataset": "probe", "export_every": "export"}.items():
            if flag[name].value:
                raise InputError(f"--{name}: there are no features to {verb} with {why}, which trains no C")
    if flag.probe_data_dir and not flag.probe_dataset:
        raise InputError("--probe_data_dir: goes with --probe_dataset, such as --probe_dataset=folder")
    if flag.run_dir == "":
        raise InputError("--run_dir: is empty; expected a folder, such as runs/mine")
    if flag.deterministic:
        _make_deterministic(flag.seed)
    from lci_tf import data
    from lci_tf.data import cache
    from lci_tf.data.input_report import InputReport
    from lci_tf.data.source import IndexedSource
    from lci_tf.pretraining import dry_run, training
    from lci_tf.runs import run as runs
    from lci_tf.training import strategy

    devices = strategy.choose()
    settings.check(replicas=devices.num_replicas_in_sync)
    if flag.jit_compile and strategy.is_several_cpus(devices):
        raise InputError("--jit_compile: XLA does not compile for several CPUs; leave it out, or train on one")
    source = data.open_source(flag.dataset, flag.split, flag.data_dir)
    given = {f"--{name}": flag[name].value for name in (*_DEFINING, *_OTHERS)}
    of_settings = {f"--{name}": value for name, value in dataclasses.asdict(settings).items()}
    strategy.check_agreement(devices, {**of_settings, **given, "the number of images": source.count})
    is_stream = not isinstance(source, IndexedSource)
    if flag.cache:
        with InputReport(source).one_line_errors():
            source = cache.in_memory(source, settings.resize)
    plan = training.Plan(
        settings=settings,
        steps=flag.steps or training.steps_of(settings, source),
        **{name: flag[name].value for name in ("seed", "init_from", "inpainter_only", "inpainter", "jit_compile",
           "steps_per_execution", "log_every", "checkpoint_every", "keep_checkpoints")},
    )  # fmt: skip
    report = InputReport(source, flag.max_bad_images)
    tiles = "_tiles" * settings.trains_seams
    run_dir = flag.run_dir or f"runs/{flag.dataset.replace('/', '_').replace(':', '_')}{tiles}"
    run = runs.Run(run_dir)
    if flag.dry_run:
        folder = run.path.with_name(f"{run.path.name}_dry_run")
        heading = presets.describe(flag.dataset, settings)
        return dry_run.look(folder, source, plan, devices, report, heading)
    # Kept in memory, a stream is shuffled as a whole: then that decides the result too.
    defining = (*_DEFINING, "cache") if is_stream else _DEFINING
    run.begin(
        {**dataclasses.asdict(settings), **{name: flag[name].value for name in defining}},
        {name: flag[name].value for name in _OTHERS if name not in defining},
        is_chief=strategy.is_chief(devices),
    )
    probe = _quick_probe(flag, settings) if flag.probe_dataset else None
    # Of a stream nobody knows how long an epoch is: then only at the start and at the end.
    every = max(1, round(flag.probe_every * source.count / settings.batch_size)) if source.count else plan.steps
    beside = {"probe": probe and _told(probe), "probe_every": every}
    beside |= {"export": _export, "export_every": flag.export_every}
    training.train(run, source, plan, devices, report, **beside)
    if probe:
        _print_probes(run, probe.measure, is_random=not flag.init_from)
    print(f"Curves     tensorboard --logdir={run.path}")
    print(f"Pictures   {run.montages}")


def _print_probes(run, measure, is_random):
    """The features as they were when first looked at, at random if `is_random`, and as they are now."""
    probes = [record for record in run.metrics() if "probe/conv1_ridge" in record]
    if len(probes) < 2:
        return
    for kind, what in (("ridge", "A linear classifier on the features"), ("knn", "Their 10 nearest neighbours")):
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
    """What looks at the features every so often."""
    from lci_tf.data import labelled
    from lci_tf.data.pipeline import Crops
    from lci_tf.evaluation.probe import quick_probe

    kinds = ("class", "multi-label")
    sources = labelled.open_labelled(flag.probe_dataset, flag.probe_data_dir, flag="--probe_dataset", kinds=kinds)
    crops = Crops(settings.crop_size, settings.resize)
    options = {"grid": flag.probe_grid, "seed": flag.seed, "max_bad_images": flag.max_bad_images}
    return quick_probe.QuickProbe(*sources, crops, **options)


def _told(probe):
    """`probe.probe`, which tells what it finds."""
    import logging

    from lci_tf.evaluation.probe import quick_probe

    def look(features, step):
        found = probe.probe(features)
        logging.getLogger("lci_tf").info("probe at step %d, in percent\n%s", step, quick_probe.table(found))
        return found

    return look


def _export(run, step):
    """Exports the checkpoint of this step as a version of its number, unless it is there from before a resume."""
    import concurrent.futures

    from lci_tf.runs import trained
    from lci_tf.serving.export import exporting

    def export():
        exporting.export(trained.from_run(run.checkpoints / f"step-{step}"), run.path / "export", version=step)

    if not (run.path / "export" / str(step)).exists():
        # In a thread of its own, which is not within the training's strategy: its variables would be exported.
        with concurrent.futures.ThreadPoolExecutor(1) as outside:
            outside.submit(export).result()


if __name__ == "__main__":
    cli.run(main, __doc__)
