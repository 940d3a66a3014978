"""Measures how local a transformation is: how small a window suffices to tell transformed images from natural ones.

It trains small classifiers that see only windows of a few pixels. What they can tell, C can learn without recognising
objects. It examines the transformations of a run, with its F; or, before any training, those of the settings. Started
again with the same flags, it resumes where it stopped."""

import dataclasses
import functools
import itertools
import pathlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from absl import flags

from lci_tf import cli
from lci_tf.config import names
from lci_tf.config.settings import Settings
from lci_tf.errors import InputError

if TYPE_CHECKING:
    from lci_tf.evaluation.locality.cells import Cell
    from lci_tf.evaluation.locality.telling import Budget, Judge
    from lci_tf.pretraining.learner import Pretraining
    from lci_tf.runs.provenance import Question

_RUN, _LOCALITY, _OUTPUT = "Run", "Locality", "Output"
_WINDOWS, _QUICK = "3,5,9,17,33,whole", "3,9,33,whole"
_SETTINGS = [field.name for field in dataclasses.fields(Settings)
             if field.metadata["group"] in ("Images", "Transformations")]  # fmt: skip
_MOST_MEGABYTES = 4096

flags.DEFINE_string("run_dir", None, "run directory of lci_tf.train, or one of its checkpoints", module_name=_RUN)
flags.DEFINE_enum("checkpoint", "latest", ["latest", "best"], "which checkpoint of --run_dir", module_name=_RUN)
cli.define_trust_run_flag(_RUN)
cli.define_data_flags()
cli.FLAGS.set_default("dataset", None)
cli.FLAGS["dataset"].help += " [that of the run, or synthetic]"
cli.define_settings_flags(*_SETTINGS)
cli.FLAGS["transforms"].help = (
    f"transformations to examine: some of {','.join(names.TRANSFORMS)}, and your own as module:Class [those of the "
    "run, or those of the preset without lci, which needs a run]"
)
flags.DEFINE_list("windows", None, f"sides of the windows in pixels, and whole for the whole image [{_WINDOWS}]",
                  module_name=_LOCALITY)  # fmt: skip
flags.DEFINE_integer(
    "seeds", None, "number of repetitions, with different images and random draws [2]", 1, module_name=_LOCALITY
)
flags.DEFINE_boolean("quick", False, f"a rough estimate: --seeds=1 --windows={_QUICK}", module_name=_LOCALITY)
flags.DEFINE_integer(
    "images", 4000, "number of source images, a quarter of them for testing", 64, module_name=_LOCALITY
)
flags.DEFINE_integer(
    "steps",
    750,
    "training steps of each classifier, with 32 natural and 32 transformed images each",
    1,
    module_name=_LOCALITY,
)
flags.DEFINE_string(
    "out_dir", None, "folder for the results [a subfolder of RUN_DIR/locality or runs/locality]", module_name=_OUTPUT
)


@dataclasses.dataclass(frozen=True)
class _Subject:
    """What is examined: the transformations of a run, or those of settings before any training.

    Attributes:
      settings: settings of a training; its `transforms` are the ones to examine.
      images: data set, split and folders, as for `data.open_source`.
      home: folder of all default folders for results.
      learner: C and F of the run, if there is one.
      origin: in plain values, the checkpoint that `learner` is from.
    """

    settings: "Settings"
    images: tuple[str, str | None, Sequence[str]]
    home: pathlib.Path
    learner: "Pretraining | None" = None
    origin: dict[str, Any] | None = None

    def judge(self, name: str) -> "Judge | None":
        """The run's C as a classifier of this transformation, if it was trained to recognise it; else None."""
        from lci_tf.evaluation.locality import telling

        names = self.origin["transforms"] if self.origin else []
        if self.learner is None or self.learner.classifier is None or name not in names:
            return None
        transform = self.learner.transforms[names.index(name)]
        return telling.by_classifier(self.learner.classifier, [self.learner.labels.index(n) for n in transform.labels])

    def folder(self, images: dict[str, Any]) -> pathlib.Path:
        """The default folder for results: another one for other images or settings."""
        from lci_tf.runs import provenance

        # Without the transformations, as further ones join those that are there.
        settings = dataclasses.asdict(dataclasses.replace(self.settings, transforms=()))
        asked = provenance.question(settings=settings, data=images)
        return self.home / f"{re.sub('[/:]', '_', self.images[0])}_{provenance.digest(asked)}"

    def question(self, cell: "Cell", images: dict[str, Any], budget: "Budget") -> "Question":
        """Everything that a cell's result depends on; `images` identifies the source."""
        from lci_tf.evaluation.locality import cells

        name = cell.transformation
        uses_network = name == "lci" or (cell.window == "whole" and self.judge(name))
        settings = dataclasses.replace(self.settings, transforms=(name,))
        return cells.question(cell, settings, self.origin if uses_network else None, images, budget)


def main() -> None:
    flag = cli.FLAGS
    cli.require_trust(run_dir=flag.run_dir)
    cli.require_own(flag.transforms or ())
    subject = _of_run(flag) if flag.run_dir else _of_settings(flag)
    from lci_tf import data
    from lci_tf.evaluation.locality import cells, report
    from lci_tf.evaluation.locality.telling import Budget
    from lci_tf.runs import provenance

    settings, budget = subject.settings, Budget(images=flag.images, steps=flag.steps)
    windows = _windows(flag, settings.crop_size)
    dataset, split, folders = subject.images
    cli.fetch_if_allowed(dataset, folders)
    source = data.open_source(dataset, split, folders)
    images = provenance.of_images(source)
    folder = pathlib.Path(flag.out_dir or subject.folder(images)).expanduser()
    seeds = range(flag.seed, flag.seed + (flag.seeds or (1 if flag.quick else 2)))
    todo = [cells.Cell(*which) for which in itertools.product(settings.transforms, seeds, windows)]
    print(_announcement(flag, subject, source, budget), flush=True)
    kept = cells.Kept(folder / "cells")
    questions = {cell: subject.question(cell, images, budget) for cell in todo}
    make = functools.partial(_make, flag, subject, source, budget)
    found = cells.measure(questions, make, subject.judge, budget, kept)
    accuracies = report.accuracies(found)
    verdicts = {name: report.verdict(name, by_window, settings.crop_size) for name, by_window in accuracies.items()}
    print(report.table(accuracies, found[todo[0]]["test_images"]))
    print("\n".join(verdicts.values()))
    report.keep(folder, accuracies, verdicts, settings, subject.origin, questions[todo[0]])
    print(f"Inputs     {provenance.line(provenance.question(network=subject.origin, data=images))}")
    print(f"Results    {folder / 'locality.json'}")
    print(f"Figure     {folder / 'locality.png'}")
    for name in settings.transforms:
        path = folder / f"windows_{cells.file_name(name)}.png"
        if kept.join_strips([cell for cell in todo if cell.transformation == name and cell.seed == seeds[0]], path):
            print(f"Windows    {path}")


def _of_settings(flag):
    """The transformations that training with these flags would use."""
    if flag.data_dir and not flag.dataset:
        raise InputError("--data_dir: needs --dataset too, such as --dataset=folder")
    flag.dataset = flag.dataset or "synthetic"
    settings = cli.settings_from_flags()
    if flag.transforms is None:
        settings = dataclasses.replace(settings, transforms=tuple(t for t in settings.transforms if t != "lci"))
    _check(settings)
    if "lci" in settings.transforms:
        raise InputError("--transforms=lci: needs a trained inpainter; give --run_dir, a run of lci_tf.train with lci, "
                         "or leave it out")  # fmt: skip
    return _Subject(settings, (flag.dataset, flag.split, flag.data_dir), pathlib.Path("runs/locality"))


def _of_run(flag):
    """The transformations of a run, with its F; or others, which its C has not learned to recognise."""
    from lci_tf.runs import checkpoints, trained

    for name in _SETTINGS:
        if name != "transforms" and flag[name].value is not None:
            raise InputError(f"--{name}: that of --run_dir is used; leave out --run_dir to examine other settings")
    if (flag.data_dir or flag.split) and not flag.dataset:
        raise InputError(
            "--dataset: missing, but --data_dir or --split is given; without all three, the images are those of the run"
        )
    prefix = checkpoints.find_checkpoint(flag.run_dir, "--run_dir", flag.checkpoint)
    run = trained.run_of(prefix)
    learned = run.settings()
    if learned.trains_seams:
        raise InputError(f"--run_dir={flag.run_dir}: trained an inpainter of seams, so it has no transformations")
    settings = dataclasses.replace(learned, transforms=tuple(flag.transforms or learned.transforms))
    _check(settings)
    if "lci" in settings.transforms and "lci" not in learned.transforms:
        raise InputError(f"--transforms=lci: {run.path} has no inpainter, as it was trained with "
                         f"--transforms={','.join(learned.transforms)}")  # fmt: skip
    from lci_tf.pretraining import training

    images = (flag.dataset, flag.split, flag.data_dir) if flag.dataset else run.data()
    origin = {"step": int(prefix.rpartition("-")[2]), "digest": checkpoints.digest(prefix),
              "transforms": list(learned.transforms)}  # fmt: skip
    return _Subject(settings, images, run.path / "locality", training.restored(prefix), origin)


def _check(settings):
    if settings.trains_seams:
        raise InputError(f"--transforms={names.TILES}: is for --task=tiles of lci_tf.probe; expected some of "
                         f"{','.join(names.TRANSFORMS)}, or module:Class of your own")  # fmt: skip
    settings.check()
    from lci_tf import transforms

    for name in settings.transforms:
        transforms.labels_of(transforms.create([name], settings))


def _windows(flag, crop_size):
    """The windows of --windows; by default the usual ones that are smaller than the crop, and the whole image."""
    from lci_tf.evaluation.locality.bags import WHOLE, WINDOWS

    known = {str(window): window for window in WINDOWS}
    for text in flag.windows or ():
        if text not in known:
            raise InputError(f"--windows={text}: expected some of {','.join(known)}")
        if known[text] != WHOLE and known[text] > crop_size:
            raise InputError(f"--windows={text}: larger than the crop of {crop_size} pixels")
    if flag.windows:
        return [known[text] for text in dict.fromkeys(flag.windows)]
    usual = [known[text] for text in (_QUICK if flag.quick else _WINDOWS).split(",")]
    return [window for window in usual if window == WHOLE or window < crop_size]


def _make(flag, subject, source, budget, name, seed):
    """Pairs of natural and transformed images for one cell: those to train on and those to test on."""
    from lci_tf.data.input_report import InputReport
    from lci_tf.data.source import count_of
    from lci_tf.evaluation.locality import pairs
    from lci_tf.pretraining import contrasts

    settings = dataclasses.replace(subject.settings, transforms=(name,))
    learner = contrasts.learner_of(settings, subject.learner)
    train, test = pairs.split(source, flag.images, seed)
    made = []
    # With different seeds, so that no test image shares its random draws with a training image.
    for part, views, own_seed in ((train, budget.views, 2 * seed), (test, 1, 2 * seed + 1)):
        report = InputReport(part, flag.max_bad_images)
        batches = contrasts.in_batches(learner, part, settings, own_seed, report)
        made.append(pairs.collect((contrast for (contrast,) in batches), views * count_of(part)))
    return tuple(made)


def _announcement(flag, subject, source, budget):
    """What is about to be measured, and with which images and budget."""
    from lci_tf.evaluation.locality import pairs

    settings, count = subject.settings, min(budget.images, source.count or budget.images)
    megabytes = pairs.megabytes(count, budget.views, settings.crop_size)
    if megabytes > _MOST_MEGABYTES:
        raise InputError(f"--images={budget.images}: would take {megabytes:,.0f} MB of memory, more than "
                         f"{_MOST_MEGABYTES:,}; give fewer")  # fmt: skip
    of_run = f" of {flag.run_dir}, step {subject.origin['step']}" if subject.origin else ""
    lines = [
        f"Locality of {', '.join(settings.transforms)}{of_run}",
        f"  Images  {count:,} of {source.name} {source.split}: a quarter for testing, the others for training, each "
        f"cropped and transformed {budget.views} times; {megabytes:,.0f} MB at a time",
        f"  Budget  {budget.described()}",
    ]
    if not subject.origin and flag.transforms is None:
        lines.append("  Without lci, which needs a trained inpainter; to include it, give --run_dir")
    if any(map(subject.judge, settings.transforms)):
        lines.append("  Whole images are classified by the C of the run")
    return "\n".join(lines)


if __name__ == "__main__":
    cli.run(main, __doc__)
