"""Draws figures for a paper from a run: training curves, transformed images, filters, nearest neighbours, and more.

Without --figures it draws all that it can, and says what the others lack. The images are those that the run was
trained on, or those of --dataset."""

from typing import Any

from absl import flags

from lci_tf import cli
from lci_tf.errors import InputError
from lci_tf.reporting import FIGURES, find_figure

_RUN, _FIGURES = "Run", "Figures"

flags.DEFINE_string("run_dir", None, "run directory of lci_tf.train, or one of its checkpoints", module_name=_RUN)
flags.DEFINE_enum("checkpoint", "latest", ["latest", "best"], "which checkpoint of --run_dir", module_name=_RUN)
cli.define_trust_run_flag(_RUN)
flags.DEFINE_list("compare_run_dir", [], "further runs, separated by commas, for the figure curves", module_name=_RUN)
flags.DEFINE_list(
    "layers", ["conv5"], "feature maps for the figures neighbours, knn, map and projector", module_name=_RUN
)
cli.define_data_flags(
    split_help="split of --dataset; by default the one for pre-training, for figures of features the one for testing"
)
cli.FLAGS.set_default("dataset", None)  # that of the run
flags.DEFINE_list("figures", [], f"figures to draw: some of {', '.join(FIGURES)}; by default all", module_name=_FIGURES)
flags.DEFINE_string(
    "out_dir",
    None,
    "folder for the figures [RUN_DIR/figures; with --dataset, a subfolder of it]",
    module_name=_FIGURES,
)
flags.DEFINE_enum("format", "png", ["png", "pdf"], "file format of the figures", module_name=_FIGURES)
flags.DEFINE_integer("mean_images", 8000, "largest number of images for mean_image", 1, module_name=_FIGURES)
flags.DEFINE_integer("knn_images", 5000, "largest number of images for neighbours and knn", 1, module_name=_FIGURES)
flags.DEFINE_integer("map_images", 1000, "largest number of images for map and projector", 1, module_name=_FIGURES)


def main() -> int | None:
    flag = cli.FLAGS
    if not flag.run_dir:
        raise InputError("--run_dir: missing; give a run of lci_tf.train")
    for name in flag.figures:
        if name not in FIGURES:
            raise InputError(f"--figures={name}: unknown; expected some of {', '.join(FIGURES)}")
    if flag.data_dir and not flag.dataset:
        raise InputError("--data_dir: needs --dataset too; without both, the images are those of the run")
    for path in [flag.run_dir, *flag.compare_run_dir]:
        cli.require_trust(run_dir=path)
    import tensorflow as tf

    from lci_tf.reporting.materials import Materials

    tf.config.experimental.enable_tensor_float_32_execution(False)  # to find the same neighbours as lci_tf.knn
    names = ("run_dir", "checkpoint", "compare_run_dir", "layers", "seed", "max_bad_images", "out_dir", "mean_images",
             "knn_images", "map_images")  # fmt: skip
    images = (flag.dataset, flag.split, flag.data_dir) if flag.dataset else None
    given: dict[str, Any] = {name: flag[name].value for name in names}
    materials = Materials(images=images, download=flag.download, **given)
    materials.run.flags()  # fails if there is no such run
    missing = []
    for name in flag.figures or FIGURES:
        try:
            for made, where in _make(name, materials, flag.format):
                print(f"  {made:18s} {where}", flush=True)
        except InputError as error:
            missing.append(name)
            print(f"  {name:18s} not made: {error}", flush=True)
    # The exit code reports figures that were asked for by name and could not be made.
    return 1 if flag.figures and missing else 0


def _make(name, materials, ending):
    """Makes a figure, and yields (name, file) for each of its parts. Never replaces a figure of other images."""
    from lci_tf.plotting import plots
    from lci_tf.reporting import noted

    figure = find_figure(name)
    if materials.out_dir:
        noted.check(materials.folder, name, materials.question(figure))
    for part, drawn in figure.draw(materials).items():
        if isinstance(drawn, str):
            yield part, drawn
        else:
            path = materials.folder / f"{part}.{ending}"
            plots.save(drawn, path)
            yield part, path
        noted.keep(materials.folder, part, materials.question(figure))


if __name__ == "__main__":
    cli.run(main, __doc__)
