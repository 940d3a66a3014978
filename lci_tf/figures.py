"""Draws figures for a paper from a run: training curves, transformations, inpainted images, filters, and more.

Without --figures all are made for which there is what they need; of the others it says what is missing. Images are
those that the run was trained on, or those of --dataset."""

import functools
import pathlib

from absl import flags

from lci_tf import cli
from lci_tf.errors import InputError

_RUN, _FIGURES = "Run", "Figures"

flags.DEFINE_string("run_dir", None, "a run of lci_tf.train, or a checkpoint of one", module_name=_RUN)
flags.DEFINE_enum("checkpoint", "latest", ["latest", "best"], "which of the run", module_name=_RUN)
flags.DEFINE_list("compare_run_dir", [], "further runs, for the curves", module_name=_RUN)
cli.define_data_flags(split_help="which part of --dataset; by default the one to pre-train on")
cli.FLAGS.set_default("dataset", None)
flags.DEFINE_list("figures", [], "which to make, of those below; by default all", module_name=_FIGURES)
flags.DEFINE_string("out_dir", None, "where they go [RUN_DIR/figures]", module_name=_FIGURES)
flags.DEFINE_enum("format", "png", ["png", "pdf"], "of the files", module_name=_FIGURES)
flags.DEFINE_integer("mean_images", 8000, "images in the mean image", lower_bound=1, module_name=_FIGURES)


def main():
    flag = cli.FLAGS
    if not flag.run_dir:
        raise InputError("--run_dir: of which run? Give one of lci_tf.train")
    for name in flag.figures:
        if name not in MAKERS:
            raise InputError(f"--figures={name}: unknown; expected some of {','.join(MAKERS)}")
    from lci_tf import plots

    materials = _Materials(flag)
    out_dir = pathlib.Path(flag.out_dir or materials.run.path / "figures")
    missing = []
    for name in flag.figures or MAKERS:
        try:
            figure = MAKERS[name](materials)
        except InputError as error:
            missing.append(name)
            print(f"  {name:16s} not made. {error}")
            continue
        path = out_dir / f"{name}.{flag.format}"
        plots.save(figure, path)
        print(f"  {name:16s} {path}")
    return 1 if flag.figures and missing else 0


class _Materials:
    """What figures are made of, each opened when it is asked for."""

    def __init__(self, flag):
        self.flag = flag

    @functools.cached_property
    def run(self):
        from lci_tf import checkpoints, runs, trained

        run = runs.Run(self.flag.run_dir)
        if (run.path / runs.FLAGFILE).is_file():
            return run
        return trained.run_of(checkpoints.find_checkpoint(self.flag.run_dir, "--run_dir"))

    @functools.cached_property
    def checkpoint(self):
        from lci_tf import checkpoints

        return checkpoints.find_checkpoint(self.flag.run_dir, "--run_dir", self.flag.checkpoint)

    @functools.cached_property
    def model(self):
        from lci_tf import trained

        return trained.from_run(self.checkpoint)

    @functools.cached_property
    def source(self):
        from lci_tf import data

        if self.flag.dataset:
            return data.open_source(self.flag.dataset, self.flag.split, self.flag.data_dir)
        return data.open_source(*self.run.data())

    @functools.cached_property
    def settings(self):
        return self.run.settings()

    @functools.cached_property
    def report(self):
        from lci_tf.data.input_report import InputReport

        return InputReport(self.source, self.flag.max_bad_images)

    @functools.cached_property
    def learner(self):
        from lci_tf.pretraining import training

        return training.restored(self.checkpoint)

    @functools.cached_property
    def examples(self):
        """What the learner makes of the first images, in the middle of which the classes are cut out."""
        from lci_tf.pretraining import batches, examples, training

        def make(worker, start_step):
            seen = (self.settings, self.learner.transforms, self.flag.seed)
            return batches.training_batches(self.source, *seen, self.report, start_step, worker)

        with self.report.one_line_errors():
            batch = examples.centred(training.first_rows(make))
            return self.learner.examples(batch["image"], batch["draws"])


def _curves(materials):
    from lci_tf import curves, runs

    others = [runs.Run(path) for path in materials.flag.compare_run_dir]
    return curves.curves({run.path.name: run.metrics() for run in (materials.run, *others)})


def _transformations(materials):
    from lci_tf import panels
    from lci_tf.pictures import levels
    from lci_tf.pretraining.examples import middle

    shown, crop_size = materials.examples, materials.settings.crop_size
    if not shown.transformed:
        raise InputError(f"--run_dir={materials.run.path}: has no C, since it was started with --inpainter_only")
    originals, edge = middle(shown.images, crop_size)
    # A source image for each class, of those that carry no autoencoded patch.
    numbers = [(2 * i + 1) % len(originals) for i in range(len(shown.transformed))]
    centres = [(crop_size // 2,) * 2] * len(numbers)
    if "lci" in shown.transformed:
        i = list(shown.transformed).index("lci")
        centres[i] = tuple(shown.patches.places[numbers[i]] + materials.settings.patch_size // 2 - edge)
    transformed = [levels(images[n]) for images, n in zip(shown.transformed.values(), numbers, strict=True)]
    return panels.transformations(list(shown.transformed), levels(originals[numbers]), transformed, centres)


def _lci(materials):
    from lci_tf import panels
    from lci_tf.pictures import levels

    shown = _with_patches(materials)
    images, inpainted = levels(shown.images), levels(shown.inpainted)
    return panels.lci(images, inpainted, shown.patches.places, materials.settings.patch_size)


def _patches(materials):
    from lci_tf import panels
    from lci_tf.pictures import levels

    given = _with_patches(materials).patches
    rows = {"original": given.original, "erased": given.erased, "inpainted": given.inpainted,
            "autoencoded": given.autoencoded}  # fmt: skip
    return panels.patches({name: levels(row) for name, row in rows.items() if row is not None})


def _with_patches(materials):
    if "lci" not in materials.settings.transforms:
        raise InputError(f"--run_dir={materials.run.path}: has no F, since lci is not among its --transforms")
    return materials.examples


def _filters(materials):
    from lci_tf import panels

    return panels.filters(materials.model.maps.weights[0].numpy())


def _mean_image(materials):
    from lci_tf import panels
    from lci_tf.data import mean_image, pipeline
    from lci_tf.data.input_report import InputReport
    from lci_tf.transfer import share

    side, source = materials.settings.crop_size, share.at_most(materials.source, materials.flag.mean_images)
    whole = pipeline.Crops(side, resize=side)
    mean = mean_image.mean_image(source, whole, InputReport(source, materials.flag.max_bad_images))
    patch_size = side // 4
    places = mean_image.telling_patches(mean, patch_size)
    return panels.mean_image(mean.round().astype("uint8"), places, patch_size)


MAKERS = {
    "curves": _curves,
    "transformations": _transformations,
    "lci": _lci,
    "patches": _patches,
    "filters": _filters,
    "mean_image": _mean_image,
}

if __name__ == "__main__":
    cli.run(main, __doc__)
