"""Draws figures for a paper from a run: training curves, transformations, inpainted images, filters, a map, and more.

Without --figures all are made for which there is what they need; of the others it says what is missing. Images are
those that the run was trained on, or those of --dataset."""

from absl import flags

from lci_tf import cli
from lci_tf.errors import InputError

_RUN, _FIGURES = "Run", "Figures"
FIGURES = ("curves", "tiles", "transformations", "lci", "patches", "filters", "mean_image", "neighbours", "knn", "map",
           "projector")  # fmt: skip

flags.DEFINE_string("run_dir", None, "a run of lci_tf.train, or a checkpoint of one", module_name=_RUN)
flags.DEFINE_enum("checkpoint", "latest", ["latest", "best"], "which of the run", module_name=_RUN)
flags.DEFINE_list("compare_run_dir", [], "further runs, for the curves", module_name=_RUN)
flags.DEFINE_list("layers", ["conv5"], "whose features: for neighbours, knn, map, projector", module_name=_RUN)
cli.define_data_flags(
    split_help="which part of --dataset; by default the one to pre-train on, and for features the one to test with"
)
cli.FLAGS.set_default("dataset", None)  # the run's
flags.DEFINE_list("figures", [], f"some of {', '.join(FIGURES)}; by default all", module_name=_FIGURES)
flags.DEFINE_string("out_dir", None, "where they go [RUN_DIR/figures]", module_name=_FIGURES)
flags.DEFINE_enum("format", "png", ["png", "pdf"], "of the files", module_name=_FIGURES)
flags.DEFINE_integer("mean_images", 8000, "images of which the mean is taken, at most", 1, module_name=_FIGURES)
flags.DEFINE_integer("knn_images", 5000, "images to find neighbours among, at most", 1, module_name=_FIGURES)
flags.DEFINE_integer("map_images", 1000, "images on the map, at most", 1, module_name=_FIGURES)


def main():
    flag = cli.FLAGS
    if not flag.run_dir:
        raise InputError("--run_dir: of which run? Give one of lci_tf.train")
    for name in flag.figures:
        if name not in FIGURES:
            raise InputError(f"--figures={name}: unknown; expected some of {', '.join(FIGURES)}")
    if flag.data_dir and not flag.dataset:
        raise InputError("--data_dir: of which data set? Give --dataset too; without both, the images are the run's")
    import tensorflow as tf

    from lci_tf.reporting.materials import Materials

    tf.config.experimental.enable_tensor_float_32_execution(False)  # neighbours are those that lci_tf.knn finds
    names = ("run_dir", "checkpoint", "compare_run_dir", "layers", "seed", "max_bad_images", "out_dir", "mean_images",
             "knn_images", "map_images")  # fmt: skip
    images = (flag.dataset, flag.split, flag.data_dir) if flag.dataset else None
    materials = Materials(images=images, **{name: flag[name].value for name in names})
    materials.run.flags()  # without a run there is nothing to begin with
    missing = []
    for name in flag.figures or FIGURES:
        try:
            for made, where in _make(name, materials, flag.format):
                print(f"  {made:18s} {where}", flush=True)
        except InputError as error:
            missing.append(name)
            print(f"  {name:18s} not made: {error}", flush=True)
    # Whoever asks for a figure by name is told by the exit code too.
    return 1 if flag.figures and missing else 0


def _make(name, materials, ending):
    """(what was made, where it is)"""
    from lci_tf.plotting import plots, projector
    from lci_tf.reporting import materials as paper_figures

    if name == "projector":
        found, folder = materials.atlas, materials.folder / name
        projector.write(folder, found.features, found.thumbnails, found.facts)
        yield name, f"tensorboard --logdir={folder}"
        return
    for part, figure in paper_figures.MAKERS[name](materials).items():
        path = materials.folder / f"{part}.{ending}"
        plots.save(figure, path)
        yield part, path


if __name__ == "__main__":
    cli.run(main, __doc__)
