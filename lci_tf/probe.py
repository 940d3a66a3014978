"""Trains linear classifiers on the frozen features of a network, and measures them on test images.

`--run_dir=RUN --dataset=stl10` is the paper's protocol for STL-10; the paper's other data sets have theirs, and your
own images have a shorter one. Started again with the same flags, it resumes where it stopped, or shows its results.

`--task=tiles` tests whether the network sees beyond local statistics: whether its features tell natural images from
images whose tiles were permuted and whose seams were inpainted by a network of `lci_tf.train --transforms=tiles`."""

import dataclasses
import pathlib

from absl import flags

from lci_tf import cli
from lci_tf.config import probe_protocols
from lci_tf.errors import InputError

_PROTOCOL, _OUTPUT = "Protocol", "Output"

cli.define_labelled_data_flags()
cli.define_model_flags()
flags.DEFINE_enum(
    "task", "labels", ["labels", "tiles"], "what to predict: an image's labels, or whether its tiles were permuted",
    module_name=_PROTOCOL,
)  # fmt: skip
flags.DEFINE_string(
    "seam_run_dir", None, "for --task=tiles: run directory of lci_tf.train --transforms=tiles, or a checkpoint",
    module_name=_PROTOCOL,
)  # fmt: skip
flags.DEFINE_enum(
    "protocol", None, [name for name in probe_protocols.PROTOCOLS if name != "tiles"],
    "training protocol; by default that of --dataset", module_name=_PROTOCOL,
)  # fmt: skip
flags.DEFINE_enum(
    "solver", "sgd", ["sgd", "ridge"],
    "SGD as in the protocol, or ridge regression on centre crops for a quick result", module_name=_PROTOCOL,
)  # fmt: skip
flags.DEFINE_boolean("mirror", False, "with --solver=ridge, train on mirrored images too", module_name=_PROTOCOL)
flags.DEFINE_boolean("multi_crop", False, "test with ten crops as well as with the centre crop", module_name=_PROTOCOL)
flags.DEFINE_integer(
    "grid", None, "pool feature maps to this many squares along each side [as in the protocol]", lower_bound=1,
    module_name=_PROTOCOL,
)  # fmt: skip
for _name, _text in {
    "crop_size": "side of a crop in pixels, instead of the protocol's",
    "resize": "short side of images before cropping, in pixels, instead of the protocol's",
    "epochs": "passes over the training images, instead of the protocol's",
    "batch_size": "images per step, instead of the protocol's",
}.items():
    _lowest = 8 if _name == "crop_size" else 1
    flags.DEFINE_integer(_name, None, _text, _lowest, module_name=_PROTOCOL)
flags.DEFINE_float(
    "learning_rate", None, "initial learning rate, instead of the protocol's; later rates keep their ratio to it",
    module_name=_PROTOCOL,
)  # fmt: skip
cli.define_label_flags()
flags.DEFINE_boolean(
    "folds", False, "train on each of STL-10's ten official folds, and report mean and spread", module_name=cli.LABELS
)
flags.DEFINE_string(
    "out_dir",
    None,
    "folder for the results [RUN_DIR/probe/NAME, or runs/NETWORK/probe/NAME without a run]",
    module_name=_OUTPUT,
)
flags.DEFINE_integer("checkpoint_every", 1000, "steps between checkpoints", lower_bound=1, module_name=_OUTPUT)
flags.register_validator("learning_rate", lambda v: v is None or v > 0, "expected a rate above 0")

_OVERRIDES = ("layers", "grid", "crop_size", "resize", "epochs", "batch_size", "learning_rate")


def main() -> None:
    flag = cli.FLAGS
    _check(flag)
    cli.require_trust(seam_run_dir=flag.seam_run_dir)
    model = cli.model_from_flags()
    if flag.task == "tiles":
        _probe_tiles(flag, model)
    else:
        _probe_labels(flag, model)


def _check(flag):
    """Refuses flags that do not go together, before anything is opened."""
    if flag.task == "tiles":
        if not flag.seam_run_dir:
            raise InputError("--seam_run_dir: --task=tiles needs an inpainter of seams; give a run of "
                             "python -m lci_tf.train --transforms=tiles")  # fmt: skip
        for name in ("protocol", "multi_crop", "mirror", "label_fraction", "labels_per_class", "folds"):
            if flag[name].value:
                raise InputError(f"--{name}: only for --task=labels, not for tiles")
        if flag.crop_size:
            raise InputError(
                "--crop_size: with --task=tiles it is that of --seam_run_dir; for another size, train another"
            )
    elif flag.seam_run_dir:
        raise InputError("--seam_run_dir: only for --task=tiles")
    cli.check_label_flags()
    if flag.folds and (flag.label_fraction or flag.labels_per_class):
        raise InputError(
            "--folds: these choose the training images; give neither --label_fraction nor --labels_per_class"
        )
    if flag.mirror and flag.solver != "ridge":
        raise InputError("--mirror: only for --solver=ridge; sgd mirrors half of its random crops anyway")
    if flag.solver == "ridge":
        for name in ("epochs", "learning_rate", "cache"):
            if flag[name].value:
                raise InputError(f"--{name}: only for --solver=sgd; ridge has a closed form")


def _protocol(flag, name, crop_size, resize):
    given = {name: flag[name].value for name in _OVERRIDES if flag[name].value not in (None, [])}
    if "layers" in given:
        given["layers"] = tuple(given["layers"])
    return probe_protocols.resolve(name, given, crop_size, resize)


def _probe_labels(flag, model):
    """Tests how well labels are predicted from features."""
    from lci_tf import runs
    from lci_tf.evaluation.probe import probe_results
    from lci_tf.evaluation.results import table

    name = flag.protocol or probe_protocols.name_for(flag.dataset)
    protocol = _protocol(flag, name, model.crop_size, model.resize)
    model = model.only(protocol.layers or model.layers)
    images = _labelled_images(flag)
    names = images.train.label_names
    metric = "accuracy" if images.train.label_kind == "class" else "average precision"
    probe = _probe(flag, model, dataclasses.replace(protocol, metric=metric))
    asked = probe.question(images, _data(flag))
    folder, results = _begin(flag, probe, asked)
    if results is None or (flag.multi_crop and not probe_results.has_multi_crop(results)):
        _announce(probe)
        found, more = probe.labels(images, folder)
        probe_results.draw_confusion(folder, found, names)
        layers = probe_results.results_of(found, names)
        results = {**asked, "network": model.origin, **more, "layers": layers, "versions": runs.versions()}
        probe_results.keep(folder, results)
    _print(table(results["layers"]), asked, folder)
    print(f"Curves     tensorboard --logdir={folder}")


def _probe_tiles(flag, model):
    """Tests whether features tell natural images from permuted ones; see `evaluation.probe.tiles_task`."""
    from lci_tf import runs
    from lci_tf.data import labelled
    from lci_tf.evaluation.probe import probe_results, tasks, tiles_task
    from lci_tf.evaluation.probe.probing import Images
    from lci_tf.plotting import pictures
    from lci_tf.runs import provenance

    seams = tiles_task.load(flag.seam_run_dir)
    protocol = _protocol(flag, "tiles", seams.crops.crop_size, seams.crops.resize)
    if not flag.layers and not set(protocol.layers) <= set(model.layers):
        protocol = dataclasses.replace(protocol, layers=model.layers)  # a network with other names for its layers
    cli.fetch_if_allowed(flag.dataset, flag.data_dir)
    train, test = labelled.open_images(flag.dataset, flag.data_dir, flag.split, flag.test_split)
    images = Images(tasks.with_count(train), test, train)
    probe = _probe(flag, model.only(protocol.layers), protocol)
    asked = probe.question(images, _data(flag), seams=provenance.of_network(seams.origin))
    folder, results = _begin(flag, probe, asked)
    if results is None:
        _announce(probe)
        examples = tiles_task.examples(seams, test, protocol, flag.seed, flag.max_bad_images)
        pictures.save(folder / "examples.png", examples)
        layers = probe_results.results_of([probe.tiles(images, seams, folder)], tiles_task.ANSWERS)
        network = {"network": model.origin, "seams": seams.origin}
        results = {**asked, **network, "layers": layers, "versions": runs.versions()}
        probe_results.keep(folder, results)
    _print(tiles_task.table(results), asked, folder)
    print(f"Examples   {folder / 'examples.png'}")


def _probe(flag, model, protocol):
    from lci_tf.evaluation.probe.probing import Probe

    return Probe(
        model=model, protocol=protocol, solver=flag.solver, mirror=flag.mirror, ten_crops=flag.multi_crop,
        seed=flag.seed, in_memory=flag.cache, checkpoint_every=flag.checkpoint_every,
        max_bad_images=flag.max_bad_images,
    )  # fmt: skip


def _labelled_images(flag):
    from lci_tf.data import labelled
    from lci_tf.data.source import check_batch
    from lci_tf.evaluation.probe import tasks
    from lci_tf.evaluation.probe.probing import Images

    cli.fetch_if_allowed(flag.dataset, flag.data_dir)
    train, test = labelled.open_labelled(
        flag.dataset, flag.data_dir, kinds=("class", "multi-label"), train_split=flag.split, test_split=flag.test_split
    )
    chosen = train
    if flag.label_fraction or flag.labels_per_class:
        chosen = labelled.few(train, flag.label_fraction, flag.labels_per_class, flag.seed)
    if flag.batch_size and flag.solver == "sgd":  # a protocol's may be larger: then images repeat within a batch
        check_batch(flag.batch_size, chosen.name, chosen.split, chosen.count)
    folds = labelled.stl10_folds(train, flag.data_dir) if flag.folds else None
    return Images(tasks.with_count(chosen), test, train, folds)


def _data(flag):
    """What was asked for of the images, as part of the question."""
    return {name: flag[name].value for name in ("dataset", "label_fraction", "labels_per_class", "folds")}


def _begin(flag, probe, asked):
    """The folder of the results, and the results if it has them already."""
    from lci_tf.runs import results_folder

    default = results_folder.default("probe", [probe.protocol.name, probe.solver], probe.model.origin, asked)
    folder = pathlib.Path(flag.out_dir or default)
    return folder, results_folder.begin(folder, asked, "probe")


def _announce(probe):
    print(f"Linear probe {probe.protocol.name!r}\n{probe_protocols.describe(probe.protocol, probe.solver)}")


def _print(table, asked, folder):
    from lci_tf.runs import provenance

    print(table)
    print(f"Inputs     {provenance.line(asked)}")
    print(f"Results    {folder / 'results.json'}")


if __name__ == "__main__":
    cli.run(main, __doc__)
