"""A pre-training from beginning to end, or from where it was left."""

import contextlib
import dataclasses
import itertools
import logging
import math
from collections.abc import Callable

import tensorflow as tf

from lci_tf import models, transforms
from lci_tf.config.presets import Settings
from lci_tf.data import pipeline
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import Source
from lci_tf.errors import InputError
from lci_tf.pretraining import batches, callbacks, optimizers
from lci_tf.pretraining.learner import Pretraining
from lci_tf.pretraining.players import Players
from lci_tf.pretraining.seams import SeamInpainting
from lci_tf.runs.checkpoints import Checkpoints, load_weights
from lci_tf.runs.run import Run
from lci_tf.runs.trained import BATCHES_SEEN, run_of
from lci_tf.training.strategy import check_agreement, is_chief

log = logging.getLogger("lci_tf")
MONTAGE_ROWS = 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What to train, beside the settings, and how.

    Attributes:
      steps: of the whole training.
      inpainter_only: train F and D, without C.
      inpainter: a run or checkpoint whose F is used, frozen.
      init_from: a run or checkpoint whose weights the training starts from.
    """

    settings: Settings
    steps: int
    seed: int = 0
    inpainter_only: bool = False
    inpainter: str | None = None
    init_from: str | None = None
    jit_compile: bool = False
    steps_per_execution: int = 1
    log_every: int = 20
    checkpoint_every: int = 500
    keep_checkpoints: int = 3

    def __post_init__(self):
        for name in ("inpainter", "init_from"):
            if getattr(self, name) == "":
                raise InputError(f"--{name}: is empty; expected a run or a checkpoint")
        with_lci = "lci" in self.settings.transforms
        for name in ("inpainter_only", "inpainter"):
            if getattr(self, name) and not with_lci:
                raise InputError(f"--{name}: is for the inpainter of lci, which is not among --transforms")
        if self.inpainter_only and self.inpainter:
            raise InputError("--inpainter_only trains an inpainter, --inpainter takes one that is trained: give one")


def steps_of(settings: Settings, source: Source) -> int:
    """How many steps the settings' epochs are."""
    if source.count is None:
        raise InputError(f"--epochs: the number of images in {source.name} {source.split} is not known; give --steps")
    return max(1, math.ceil(settings.epochs * source.count / settings.batch_size))


def build(plan: Plan) -> Players:
    """C, F and D, as far as the settings need them, compiled. To be called inside the strategy's scope."""
    settings = plan.settings
    tf.keras.utils.set_random_seed(plan.seed)
    precision = settings.mixed_precision
    tf.keras.mixed_precision.set_global_policy(precision if precision == "float32" else f"mixed_{precision}")
    try:
        chosen = transforms.create(settings.transforms, settings, settings.crop_size + settings.margin)
        classifier = inpainter = discriminator = None
        if not (plan.inpainter_only or settings.trains_seams):
            classes = len(transforms.labels_of(chosen))
            classifier = models.classifier(
                settings.backbone, classes, settings.crop_size, settings.width, settings.sync_bn
            )
        if settings.trains_seams or "lci" in settings.transforms:
            side = settings.crop_size if settings.trains_seams else settings.patch_size
            shape = {"patch_size": side, "deep": settings.deep_inpainter, "width": settings.width}
            inpainter = models.inpainter(**shape, sync_bn=settings.sync_bn)
            if plan.inpainter is None:
                discriminator = models.patch_discriminator(**shape, pooling=settings.discriminator_pooling)
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    kind = SeamInpainting if settings.trains_seams else Pretraining
    learner = kind(classifier, inpainter, discriminator, chosen, settings)
    learner.compile(
        **optimizers.build(settings, plan.steps),
        jit_compile=plan.jit_compile,
        steps_per_execution=plan.steps_per_execution,
    )
    return learner


def train(
    run: Run,
    source: Source,
    plan: Plan,
    strategy: tf.distribute.Strategy,
    report: InputReport,
    probe: Callable | None = None,
    probe_every: int = 0,
    export: Callable | None = None,
    export_every: int | None = None,
) -> Players:
    """Trains up to `plan.steps`, from the run's last checkpoint if it has one.

    Args:
      probe: called with C's features and the step, every `probe_every` steps; gives accuracies per layer.
      export: called by the chief with the run and the step, every `export_every` steps, if any, after a checkpoint; and
        again if the training is resumed there.
    """
    chief = is_chief(strategy)
    with strategy.scope():
        learner = build(plan)
    checkpoints = Checkpoints(run, checkpointed(learner), keep=plan.keep_checkpoints, is_chief=chief)
    held = [f"step {step}" for step in checkpoints.steps()]
    check_agreement(strategy, {f"--run_dir (this one has checkpoints of {', '.join(held) or 'no step'})": held})
    first_step = checkpoints.restore_latest() or 0
    if first_step == 0:
        load_given_weights(learner, plan)
    if first_step and export_every and chief and (first_step % export_every == 0 or first_step == plan.steps):
        export(run, first_step)  # it may have been killed between the checkpoint and the export
    if first_step:
        _check_images(run, source)
    if first_step >= plan.steps:
        log.info("%s is finished: %d steps", run.path, first_step)
        return learner
    if first_step:
        log.info("going on from step %d of %d", first_step, plan.steps)
    if chief:
        run.forget_after(first_step)
        run.describe(_facts(learner, source, plan, strategy))

    def make(worker, start_step=first_step):
        made = learner.transforms
        return batches.training_batches(source, plan.settings, made, plan.seed, report, start_step, worker)

    def see_images():
        see = tf.function(lambda batch: strategy.run(learner.see, args=(batch["image"],)))
        for batch in itertools.islice(iter(batches.distributed(strategy, make)), BATCHES_SEEN):
            see(batch)

    recorder = callbacks.Recorder(run if chief else None)
    span = (first_step, plan.steps)
    with report.one_line_errors():
        shown = first_rows(make)
    beside = [
        callbacks.StopIfNotFinite(first_step, checkpoints),
        callbacks.LogNumbers(plan.log_every, *span, recorder),
        callbacks.Montages(*span, shown, recorder),
        callbacks.SaveCheckpoints(plan.checkpoint_every, *span, checkpoints),
    ]
    if probe is not None:
        beside.insert(2, callbacks.Probe(probe_every, *span, probe, see_images, recorder, checkpoints))
    if export_every:
        beside.append(callbacks.Export(export_every, *span, checkpoints, export if chief else None, run))
    bar = callbacks.ProgressBar(*span, plan.settings.batch_size)
    if chief:
        beside.append(bar)
    with report.one_line_errors(), _enough_memory(), contextlib.closing(bar):
        learner.fit(
            batches.distributed(strategy, make),
            steps_per_epoch=plan.steps - first_step,
            callbacks=beside,
            verbose=0,
        )
    return learner


@contextlib.contextmanager
def _enough_memory():
    """Tells in one line that there is not enough."""
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise InputError(
            f"out of memory ({error.message.splitlines()[0]}); try a smaller --batch_size or --width, or "
            "--mixed_precision=bfloat16"
        ) from error


def _check_images(run, source):
    """Of a run that goes on: with more images or fewer, every epoch would be another one."""
    images = run.facts()["data"]["images"]
    if images != source.count:
        raise InputError(
            f"--data_dir: {source.name} {source.split} has {source.count} images, and had {images} when "
            f"{run.path} was begun; bring back what it had, or begin anew, with --init_from={run.path}"
        )


def _facts(learner, source, plan, strategy):
    """For `run.json`: what the flags do not tell."""
    networks = {"C": learner.classifier, "F": learner.inpainter, "D": learner.discriminator}
    return {
        "data": {"name": source.name, "split": source.split, "images": source.count},
        "seed": plan.seed,
        "steps": plan.steps,
        "replicas": strategy.num_replicas_in_sync,
        "labels": learner.labels,
        "parameters": {name: model.count_params() for name, model in networks.items() if model is not None},
    }


def checkpointed(learner: Players) -> dict[str, tf.Module]:
    """What a checkpoint holds, by name."""
    held = {"sums": learner.sums}
    for player in ("classifier", "inpainter", "discriminator"):
        if getattr(learner, player) is not None:
            held[player] = getattr(learner, player)
    for player in learner.players:
        held[f"{player}_optimizer"] = learner.optimizer_of(player)
    return held


def load_given_weights(learner: Players, plan: Plan) -> None:
    if plan.init_from:
        players = {name: getattr(learner, name) for name in learner.players}
        load_weights(plan.init_from, "--init_from", **players)
    if plan.inpainter:
        prefix = load_weights(plan.inpainter, "--inpainter", inpainter=learner.inpainter)
        _check_inpainter(run_of(prefix, "--inpainter"), plan)


def _check_inpainter(run, plan):
    """Of an F that is taken as it is: it fills in what it was trained to, and would fill in anything else badly."""
    of_run, wanted = run.settings(), plan.settings
    for name in ("patch_size", "border", "noise_scale"):
        theirs, ours = getattr(of_run, name), getattr(wanted, name)
        if theirs != ours:
            raise InputError(
                f"--inpainter={plan.inpainter}: was trained with --{name}={theirs:g}, not {ours:g}; give --{name} as "
                "it was there, or train another with --inpainter_only"
            )


def restored(prefix: str, flag: str = "--run_dir") -> Pretraining:
    """A run's C and F as a checkpoint holds them, to be looked at, not to be trained on.

    Args:
      prefix: of the checkpoint, see `checkpoints.find_checkpoint`.
      flag: what the user calls it, for messages.
    """
    run = run_of(prefix, flag)
    flags, settings = run.flags(), dataclasses.replace(run.settings(), mixed_precision="float32", sync_bn=False)
    without_c = flags.get("inpainter_only") == "true"
    learner = build(Plan(settings=settings, steps=1, inpainter_only=without_c, inpainter=flags.get("inpainter")))
    networks = {"classifier": learner.classifier, "inpainter": learner.inpainter}
    load_weights(prefix, flag, **{name: network for name, network in networks.items() if network is not None})
    return learner


def first_rows(make) -> dict:
    """The first images of the very first batch, with their draws: what the pictures of a run show."""
    batch = next(iter(make(pipeline.ALONE, start_step=0)))
    return tf.nest.map_structure(lambda values: values[:MONTAGE_ROWS], batch)
