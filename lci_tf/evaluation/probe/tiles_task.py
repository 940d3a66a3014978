"""The test of Figure 1: can a linear classifier on features tell natural images from images of permuted tiles?

Permuting the tiles of an image preserves its local statistics, if the seams are inpainted well; so a network whose
features tell the two apart sees more than local statistics. But imperfect seams may reveal the answer. So there is a
second, harder question: were the tiles of an image permuted, given that its seams were inpainted in either case?
"""

import dataclasses
import itertools
import os
from typing import Any

import numpy as np
import tensorflow as tf

from lci_tf import models
from lci_tf.config.probe_protocols import ProbeProtocol
from lci_tf.data import draws, pipeline
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import Source, count_of
from lci_tf.errors import InputError
from lci_tf.evaluation.probe.tasks import Task, crops_of
from lci_tf.imaging import images
from lci_tf.plotting import pictures
from lci_tf.runs import checkpoints, trained
from lci_tf.transforms import Tiles

NATURAL, UNPERMUTED, PERMUTED = KINDS = ("natural", "unpermuted", "permuted")
# The paper's question, and the harder one, in which both kinds of images have inpainted seams.
QUESTIONS = {f"{other} or {PERMUTED}": (other, PERMUTED) for other in (NATURAL, UNPERMUTED)}
ANSWERS = ("not permuted", "permuted")
_EXAMPLES, _EXAMPLE_SIDE = 8, 128


@dataclasses.dataclass(frozen=True)
class SeamInpainter:
    """Makes images of each kind.

    Attributes:
      inpainter: F, from images [n, size, size, 3] with erased seams to images.
      tiles: permutes tiles and erases seams.
      crops: size of the crops that F was trained on.
      origin: identifies the network in results, in plain values.
    """

    inpainter: tf.keras.Model
    tiles: Tiles
    crops: pipeline.Crops
    origin: dict[str, Any]

    def make(self, kind: str, x: tf.Tensor, permutation_draws: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
        """Makes images of this kind from natural ones.

        Args:
          kind: one of `KINDS`.
          x: natural images, float32 [n, size, size, 3] in [-1, 1].
          permutation_draws: uniform draws, float32 [n, tiles²].
          noise: draws from N(0, 1), in the shape of `x`.
        """
        if kind == NATURAL:
            return x
        if kind == PERMUTED:
            x = self.tiles.permute(x, self.tiles.permutation(permutation_draws))
        erased = self.tiles.erase_seams(x, noise)
        return self.tiles.fill_seams(x, self.inpainter(erased, training=False))


def load(path: str | os.PathLike, flag: str = "--seam_run_dir") -> SeamInpainter:
    """Loads F from a run of `lci_tf.train --transforms=tiles` or one of its checkpoints; `flag` is for messages."""
    prefix = checkpoints.find_checkpoint(path, flag)
    settings = trained.run_of(prefix, flag).settings()
    if not settings.trains_seams:
        raise InputError(
            f"{flag}={path}: was trained with --transforms={','.join(settings.transforms)}; expected an inpainter of "
            "seams, from python -m lci_tf.train --transforms=tiles"
        )
    inpainter = models.inpainter(settings.crop_size, settings.inpainter_halvings, settings.width)
    checkpoints.load_weights(prefix, flag, inpainter=inpainter)
    origin = {"checkpoint": prefix, "digest": checkpoints.digest(prefix), "tiles": settings.tiles,
              "seam": settings.seam}  # fmt: skip
    tiles = Tiles.from_settings(settings, settings.crop_size)
    return SeamInpainter(inpainter, tiles, pipeline.Crops(settings.crop_size, settings.resize), origin)


def task(
    question: str,
    train: Source,
    test: Source,
    seams: SeamInpainter,
    protocol: ProbeProtocol,
    seed: int = 0,
    max_bad_images: float = 0.01,
) -> Task:
    """The task of answering a question: every image comes in both kinds, with the same noise in its seams.

    Args:
      question: one of `QUESTIONS`.
      train, test: images; their labels are ignored. `train` must know its count, see `tasks.with_count`.
      seams: makes the images.
      protocol: for the size of crops and batches, which contain images of both kinds.
      seed: random seed for the order of images, the crops, permutations and noise.
      max_bad_images: how many may be unreadable; see `InputReport`.
    """
    crops, size = crops_of(protocol), max(1, protocol.batch_size // 2)

    @tf.function(reduce_retracing=True)  # runs on the accelerator, unlike tf.data
    def both_kinds(x, step):
        n = tf.shape(x)[0]
        permutation = draws.uniform(seed, draws.TRANSFORMATION, step, n, seams.tiles.draws)
        noise = draws.normal(draws.places(seed, draws.NOISE, step, n), n, x.shape[1:])
        made = [seams.make(kind, x, permutation, noise) for kind in QUESTIONS[question]]
        return tf.concat(made, axis=0), tf.repeat(tf.constant([0, 1], tf.int64), n)

    def endless(first_step):
        report = InputReport(train, max_bad_images)
        batches = pipeline.training_batches(train, crops, size, seed, report, first_step)
        with report.one_line_errors():
            for step, batch in enumerate(batches, first_step):
                made, label = both_kinds(batch["image"], tf.constant(step, tf.int64))
                yield {"image": made, "label": label}

    def one_pass(source, steps):
        report = InputReport(source, max_bad_images)
        batches = pipeline.evaluation_batches(source, crops, size, report)
        with report.one_line_errors():
            for step, batch in zip(steps, batches):  # noqa: B905 (there is no end of steps)
                made, label = both_kinds(batch["image"][:, 0], tf.constant(step, tf.int64))
                others = {name: tf.tile(batch[name], [2]) for name in ("index", "valid")}
                yield {"image": made[:, tf.newaxis], "label": label, **others}

    return Task(
        label_kind="class",
        label_names=ANSWERS,
        count=2 * count_of(train),
        test_count=None if test.count is None else 2 * test.count,
        train=endless,
        train_once=lambda: one_pass(train, itertools.count()),
        test=lambda: one_pass(
            test, itertools.count(-1, -1)
        ),  # negative steps, so that permutations differ from those in training
    )


def examples(
    seams: SeamInpainter, source: Source, protocol: ProbeProtocol, seed: int = 0, max_bad_images: float = 0.01
) -> np.ndarray:
    """A picture of the first images in all kinds side by side, uint8 [height, width, 3]."""
    crops, report = crops_of(protocol), InputReport(source, max_bad_images)
    with report.one_line_errors():
        x = next(iter(pipeline.evaluation_batches(source, crops, _EXAMPLES, report)))["image"][:, 0]
    permutation = draws.uniform(seed, draws.TRANSFORMATION, -1, len(x), seams.tiles.draws)
    noise = draws.normal(draws.places(seed, draws.NOISE, -1, len(x)), len(x), x.shape[1:])
    factor = max(1, round(_EXAMPLE_SIDE / crops.crop_size))
    made = {kind: images.unscale(seams.make(kind, x, permutation, noise)).numpy() for kind in KINDS}
    return pictures.table({kind: pictures.enlarge(pixels, factor) for kind, pixels in made.items()})


def table(results: dict[str, Any]) -> str:
    """Results of `probe_results.results_of` as a table in percent: a column per layer and a row per question."""
    layers = results["layers"]
    first = next(iter(next(iter(layers.values())).values()))
    width = max(9, *(len(layer) + 2 for layer in layers))
    lines = [f"Accuracy in percent, on {first['test_images']:,} test images, half of them permuted"]
    lines.append(" " * 28 + "".join(f"{layer:>{width}s}" for layer in layers))
    for question in QUESTIONS:
        cells = [f"{100 * of[question]['accuracy']:{width}.1f}" for of in layers.values()]
        lines.append(f"  {question:26s}" + "".join(cells))
    return "\n".join(lines)
