"""Runs a pre-training from beginning to end, or resumes it: builds the networks, trains, logs and saves."""

import contextlib
import dataclasses
import itertools
import logging
import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from lci_tf import models, transforms
from lci_tf.config.settings import Settings
from lci_tf.data import pipeline
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import Source
from lci_tf.errors import InputError
from lci_tf.pretraining import batches, callbacks, looks, needed_memory, optimizers
from lci_tf.pretraining.advice import Advice
from lci_tf.pretraining.learner import Pretraining
from lci_tf.pretraining.players import Players
from lci_tf.pretraining.seams import SeamInpainting
from lci_tf.runs import Run, provenance
from lci_tf.runs.checkpoints import Checkpoints, load_weights
from lci_tf.runs.trained import BATCHES_SEEN, run_of
from lci_tf.training import memory
from lci_tf.training.strategy import any_of, check_agreement, is_chief

log = logging.getLogger("lci_tf")
MONTAGE_ROWS = 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that defines a training, apart from the images.

    Attributes:
      settings: the settings.
      steps: number of steps of the whole training.
      seed: random seed.
      inpainter_only: whether to train only F and D, without C.
      inpainter: a run or checkpoint to take F from, which stays frozen.
      init_from: a run or checkpoint to take the initial weights from.
      jit_compile, steps_per_execution: as in `tf.keras.Model.compile`.
      log_every, checkpoint_every: steps between records of metrics, and between checkpoints.
      keep_checkpoints: number of recent checkpoints to keep.
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
                raise InputError(f"--{name}: needs lci, which is not among --transforms")
        if self.inpainter_only and self.inpainter:
            raise InputError(
                "--inpainter_only and --inpainter: give one; the first trains an inpainter, the second uses one"
            )


def steps_of(settings: Settings, source: Source) -> int:
    """The number of steps in the settings' epochs."""
    if source.count is None:
        raise InputError(f"--epochs: the number of images in {source.name} {source.split} is not known; give --steps")
    return max(1, math.ceil(settings.epochs * source.count / settings.batch_size))


def build(plan: Plan) -> Players:
    """Builds and compiles those of C, F and D that the plan needs. Must be called inside the strategy's scope."""
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
            inpainter = models.inpainter(side, settings.inpainter_halvings, settings.width, settings.sync_bn)
            if plan.inpainter is None:
                discriminator = models.patch_discriminator(
                    side, settings.discriminator_halvings, settings.width, settings.discriminator_pooling
                )
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class During:
    """What is done during a training, beside its steps.

    Attributes:
      probe: function from C's features and the step to accuracies per layer, called every `probe_every` steps.
      probed: identifies the images and the method of `probe`; see `provenance.digest`.
      measure: function from a sampler of the images to a function from C's features to numbers by layer and name, which
        is called every `probe_every` steps.
      held_out: images that are not trained on, with their report. F's patches are measured on them, by default on
        images that are.
      export: called by the chief with the run and the step, every `export_every` steps, if any, after a checkpoint; and
        again if the training is resumed there.
    """

    probe: Callable | None = None
    probed: str | None = None
    probe_every: int = 0
    measure: Callable | None = None
    held_out: tuple[Source, InputReport] | None = None
    export: Callable | None = None
    export_every: int | None = None

    def export_at(self, run: Run, step: int, last_step: int) -> None:
        """Exports if this step is one to export at."""
        if self.export and self.export_every and (step % self.export_every == 0 or step == last_step):
            self.export(run, step)


def train(
    run: Run,
    source: Source,
    plan: Plan,
    strategy: tf.distribute.Strategy,
    report: InputReport,
    during: During = During(),  # noqa: B008 (it is frozen)
) -> Players:
    """Trains up to `plan.steps`, from the run's last checkpoint if it has one."""
    chief = is_chief(strategy)
    with strategy.scope():
        learner = build(plan)
    memory.require(needed_memory.estimate(learner, plan.settings, strategy))
    checkpoints = Checkpoints(run, checkpointed(learner), plan.keep_checkpoints, chief, scored_by=during.probed)
    held, is_unseen = [f"step {step}" for step in checkpoints.steps()], run.left_out.exists()
    check_agreement(strategy, {f"--run_dir (this one has checkpoints of {', '.join(held) or 'no step'})": held})
    first_step = checkpoints.restore_latest() or 0
    if first_step == 0:
        load_given_weights(learner, plan)
    else:
        _check_images(run, source)
        if chief:
            during.export_at(run, first_step, plan.steps)  # it may have been killed between checkpoint and export
    if first_step >= plan.steps:
        log.info("%s is finished: %d steps", run.path, first_step)
        if not is_unseen:
            return learner
    elif first_step:
        log.info("resuming at step %d of %d", first_step, plan.steps)
    if chief:
        run.forget_after(first_step)
        run.describe(_facts(learner, source, plan, strategy))
    _fit(learner, run, source, plan, strategy, report, during, checkpoints, first_step, is_unseen)
    return learner


def _fit(learner, run, source, plan, strategy, report, during, checkpoints, first_step, is_unseen):
    """Runs the steps from `first_step` on. If none is left, it makes up for a measurement that was interrupted."""

    def make(worker, start_step=first_step):
        made = learner.transforms
        return batches.training_batches(source, plan.settings, made, plan.seed, report, start_step, worker)

    def calibrate_batch_norm():
        calibrate = tf.function(lambda batch: strategy.run(learner.calibrate_batch_norm, args=(batch["image"],)))
        for batch in itertools.islice(iter(batches.distributed(strategy, make)), BATCHES_SEEN):
            calibrate(batch)

    chief, span = is_chief(strategy), (first_step, plan.steps)
    recorder = callbacks.Recorder(run if chief else None)
    with report.one_line_errors():
        shown = first_rows(make)
    writers = [
        callbacks.LogNumbers(plan.log_every, *span, recorder, Advice() if chief else None),
        callbacks.Montages(*span, shown, recorder),
        callbacks.SaveCheckpoints(plan.checkpoint_every, *span, checkpoints),
    ]
    looked_at = looks.choose(learner, plan.settings, plan.seed, (source, report), during.held_out, during.measure)
    if during.probe_every and (during.probe or looked_at):
        look = callbacks.Looks(during.probe_every, *span, looked_at, during.probe, calibrate_batch_norm, recorder,
                               checkpoints, run.left_out, is_unseen)  # fmt: skip
        writers.insert(0, look)
        if first_step >= plan.steps:
            look.set_model(learner)
            look.on_train_begin()
    if first_step >= plan.steps:
        return
    if during.export_every:
        export = during.export if chief else None
        writers.append(callbacks.Export(during.export_every, *span, checkpoints, export, run))
    finite = callbacks.StopIfNotFinite(first_step, checkpoints, writers)
    bar = callbacks.ProgressBar(*span, plan.settings.batch_size)
    ending = callbacks.EndIfAsked(*span, checkpoints, finite, any_of(strategy))
    with report.one_line_errors(), memory.one_line_errors(), contextlib.closing(bar), ending.watching():
        learner.fit(
            batches.distributed(strategy, make),
            steps_per_epoch=plan.steps - first_step,
            callbacks=[finite, *writers, *([bar] if chief else []), ending],
            verbose=0,
        )


def _check_images(run, source):
    """Refuses to resume a run with other images than it began with, which would change its epochs."""
    before, now = run.facts()["data"], provenance.of_images(source, labels=False)
    what = f"--data_dir: {source.name} {source.split}"
    begun = f"when {run.path} was started; restore these, or start a new run with --init_from={run.path}"
    if before["images"] != now["images"]:
        raise InputError(f"{what} has {now['images']} images, but had {before['images']} {begun}")
    # Earlier versions recorded only the number of images.
    if before.get("contents", now["contents"]) != now["contents"]:
        raise InputError(f"{what} has other images, by their names and sizes, than {begun}")


def _facts(learner, source, plan, strategy):
    """Facts for `run.json` that the flags do not contain."""
    networks = {"C": learner.classifier, "F": learner.inpainter, "D": learner.discriminator}
    return {
        "data": {"name": source.name, **provenance.of_images(source, labels=False)},
        "seed": plan.seed,
        "steps": plan.steps,
        "replicas": strategy.num_replicas_in_sync,
        "labels": learner.labels,
        "parameters": {name: model.count_params() for name, model in networks.items() if model is not None},
    }


def checkpointed(learner: Players) -> dict[str, tf.Module]:
    """The objects that a checkpoint saves, by name."""
    held = {"sums": learner.sums}
    for player in ("classifier", "inpainter", "discriminator"):
        if getattr(learner, player) is not None:
            held[player] = getattr(learner, player)
    for player in learner.players:
        held[f"{player}_optimizer"] = learner.optimizer_of(player)
    return held


def load_given_weights(learner: Players, plan: Plan) -> None:
    """Loads the weights that the plan names: all for `init_from`, F for `inpainter`."""
    if plan.init_from:
        players = {name: getattr(learner, name) for name in learner.players}
        load_weights(plan.init_from, "--init_from", **players)
    if plan.inpainter:
        prefix = load_weights(plan.inpainter, "--inpainter", inpainter=learner.inpainter)
        _check_inpainter(run_of(prefix, "--inpainter"), plan)


def _check_inpainter(run, plan):
    """Refuses a frozen F that was trained for other patches, as it would inpaint these badly."""
    of_run, wanted = run.settings(), plan.settings
    for name in ("patch_size", "border", "noise_scale"):
        theirs, ours = getattr(of_run, name), getattr(wanted, name)
        if theirs != ours:
            raise InputError(
                f"--inpainter={plan.inpainter}: was trained with --{name}={theirs:g}, not {ours:g}; give the "
                f"same --{name}, or train another with --inpainter_only"
            )


def restored(prefix: str, flag: str = "--run_dir") -> Pretraining:
    """C and F of a run, restored from a checkpoint, for inspection, not for further training.

    Args:
      prefix: prefix of the checkpoint's files, see `checkpoints.find_checkpoint`.
      flag: the flag that names it, for messages.
    """
    run = run_of(prefix, flag)
    flags, settings = run.flags(), dataclasses.replace(run.settings(), mixed_precision="float32", sync_bn=False)
    without_c = flags.get("inpainter_only") == "true"
    learner = build(Plan(settings=settings, steps=1, inpainter_only=without_c, inpainter=flags.get("inpainter")))
    networks = {"classifier": learner.classifier, "inpainter": learner.inpainter}
    load_weights(prefix, flag, **{name: network for name, network in networks.items() if network is not None})
    return learner


def first_rows(make: batches.MakeBatches) -> dict[str, Any]:
    """The first images of the very first batch with their draws, which the pictures of a run show."""
    batch = next(iter(make(pipeline.ALONE, start_step=0)))
    return tf.nest.map_structure(lambda values: values[:MONTAGE_ROWS], batch)
