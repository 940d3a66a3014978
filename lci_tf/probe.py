"""Puts linear classifiers on the frozen features of a network, and tells how good they are on test images.

`--run_dir=RUN --dataset=stl10` is the paper's protocol for STL-10; other sets have theirs, and your own images have a
shorter one. Started again with the same flags, a probe goes on where it was left, or shows its results.

`--task=tiles` asks whether the network sees beyond local statistics: whether features tell natural images from images
whose tiles were permuted and whose seams were inpainted, by a network of `lci_tf.train --transforms=tiles`."""

import dataclasses
import pathlib
from typing import TYPE_CHECKING

from absl import flags

from lci_tf import cli
from lci_tf.config import probe_protocols
from lci_tf.errors import InputError

if TYPE_CHECKING:
    from lci_tf.data.source import Source

_PROTOCOL, _LABELS, _OUTPUT = "Protocol", "Labels", "Output"

cli.define_data_flags(split_help="which part to train on; by default the one for that, or four fifths of the only one")
flags.DEFINE_string("test_split", None, "which part to test with, likewise", module_name=cli.DATA)
flags.DEFINE_boolean("cache", False, "decode training images once and keep them in memory", module_name=cli.DATA)
cli.define_model_flags()
flags.DEFINE_enum(
    "task", "labels", ["labels", "tiles"], "what to tell: an image's labels; or whether its tiles were permuted",
    module_name=_PROTOCOL,
)  # fmt: skip
flags.DEFINE_string(
    "seam_run_dir", None, "for --task=tiles: a run of lci_tf.train --transforms=tiles, or a checkpoint of one",
    module_name=_PROTOCOL,
)  # fmt: skip
flags.DEFINE_enum(
    "protocol", None, [name for name in probe_protocols.PROTOCOLS if name != "tiles"],
    "how to train; by default that of --dataset", module_name=_PROTOCOL,
)  # fmt: skip
flags.DEFINE_enum(
    "solver", "sgd", ["sgd", "ridge"],
    "sgd as in the protocol; or ridge regression on centre crops, for a quick look", module_name=_PROTOCOL,
)  # fmt: skip
flags.DEFINE_boolean("mirror", False, "with --solver=ridge, train on mirror images too", module_name=_PROTOCOL)
flags.DEFINE_boolean("multi_crop", False, "test by ten crops too, and not only by the centre", module_name=_PROTOCOL)
flags.DEFINE_integer(
    "grid", None, "pool maps to so many squares along each side; by default as in the protocol", lower_bound=1,
    module_name=_PROTOCOL,
)  # fmt: skip
for _name, _text in {
    "crop_size": "side of a crop in pixels",
    "resize": "short side of the image before a crop is cut; smaller images are not enlarged",
    "epochs": "passes over the training images",
    "batch_size": "images per step",
}.items():
    _lowest = 8 if _name == "crop_size" else 1
    flags.DEFINE_integer(_name, None, f"{_text}, instead of the protocol's", _lowest, module_name=_PROTOCOL)
flags.DEFINE_float(
    "learning_rate", None, "the first, instead of the protocol's; later ones keep their ratio to it",
    module_name=_PROTOCOL,
)  # fmt: skip
flags.DEFINE_float("label_fraction", None, "train on this share of each class", module_name=_LABELS)
flags.DEFINE_integer(
    "labels_per_class", None, "train on so many images of each class", lower_bound=1, module_name=_LABELS
)
flags.DEFINE_boolean("folds", False, "STL-10's ten official folds: mean and spread", module_name=_LABELS)
flags.DEFINE_string("out_dir", None, "where the results go [RUN_DIR/probe/NAME, or probe/NAME]", module_name=_OUTPUT)
flags.DEFINE_integer("checkpoint_every", 1000, "steps between checkpoints", lower_bound=1, module_name=_OUTPUT)
flags.register_validator("learning_rate", lambda v: v is None or v > 0, "expected a rate above 0")
flags.register_validator("label_fraction", lambda v: v is None or 0 < v <= 1, "expected a share above 0, up to 1")

_OVERRIDES = ("layers", "grid", "crop_size", "resize", "epochs", "batch_size", "learning_rate")


def main():
    flag = cli.FLAGS
    _check(flag)
    from lci_tf.evaluation.probe import probe_results
    from lci_tf.evaluation.probe.frozen import FrozenFeatures
    from lci_tf.runs import results_folder
    from lci_tf.runs import run as runs

    model = cli.model_from_flags()
    if flag.task == "tiles":
        return _probe_tiles(flag, model)
    name = flag.protocol or probe_protocols.name_for(flag.dataset)
    protocol = _protocol(flag, name, model.crop_size, model.resize)
    model = model.only(protocol.layers or model.layers)
    data = _open(flag)
    names = data.train.label_names
    metric = "accuracy" if data.train.label_kind == "class" else "average precision"
    protocol = dataclasses.replace(protocol, metric=metric)
    features = FrozenFeatures(model, protocol)
    asked = _asked(flag, protocol, model, data)
    folder = pathlib.Path(flag.out_dir or _default_folder(flag, protocol, model, asked))
    results = results_folder.begin(folder, asked, "probe")
    if results is None or (flag.multi_crop and not probe_results.has_multi_crop(results)):
        print(f"Linear probe {protocol.name!r}\n{probe_protocols.describe(protocol, flag.solver)}")
        found, more = _probe(flag, model, features, protocol, data, folder)
        probe_results.draw_confusion(folder, found, names)
        layers = probe_results.results_of(found, names)
        results = {**asked, "network": model.origin, **more, "layers": layers, "versions": runs.versions()}
        probe_results.keep(folder, results)
    print(probe_results.table(results))
    print(f"Results    {folder / 'results.json'}")
    print(f"Curves     tensorboard --logdir={folder}")


def _check(flag):
    """What can be told before anything is opened."""
    if flag.task == "tiles":
        if not flag.seam_run_dir:
            raise InputError("--seam_run_dir: --task=tiles needs an inpainter of seams; give a run of "
                             "python -m lci_tf.train --transforms=tiles")  # fmt: skip
        for name in ("protocol", "multi_crop", "mirror", "label_fraction", "labels_per_class", "folds"):
            if flag[name].value:
                raise InputError(f"--{name}: is for --task=labels, and not for tiles")
        if flag.crop_size:
            raise InputError("--crop_size: with --task=tiles it is that of --seam_run_dir; for another, train another")
    elif flag.seam_run_dir:
        raise InputError("--seam_run_dir: is for --task=tiles")
    if flag.label_fraction and flag.labels_per_class:
        raise InputError("--label_fraction and --labels_per_class: give one of them")
    if flag.folds and (flag.label_fraction or flag.labels_per_class):
        raise InputError("--folds: choose the images to train on; give neither --label_fraction nor --labels_per_class")
    if flag.mirror and flag.solver != "ridge":
        raise InputError("--mirror: is for --solver=ridge; sgd mirrors half of its random crops anyway")
    if flag.solver == "ridge":
        for name in ("epochs", "learning_rate", "cache"):
            if flag[name].value:
                raise InputError(f"--{name}: is for --solver=sgd; ridge has a closed form")


def _protocol(flag, name, crop_size, resize):
    given = {name: flag[name].value for name in _OVERRIDES if flag[name].value not in (None, [])}
    if "layers" in given:
        given["layers"] = tuple(given["layers"])
    return probe_protocols.resolve(name, given, crop_size, resize)


@dataclasses.dataclass(frozen=True)
class _Data:
    """Images to train on, and all from which they were chosen; to test with; and numbers of those in each fold."""

    train: "Source"
    all_train: "Source"
    test: "Source"
    folds: list | None


def _open(flag):
    from lci_tf.data import labelled
    from lci_tf.evaluation.probe import tasks

    train, test = labelled.open_labelled(
        flag.dataset, flag.data_dir, kinds=("class", "multi-label"), train_split=flag.split, test_split=flag.test_split
    )
    chosen = train
    if flag.label_fraction or flag.labels_per_class:
        chosen = labelled.few(train, flag.label_fraction, flag.labels_per_class, flag.seed)
    folds = labelled.stl10_folds(train, flag.data_dir) if flag.folds else None
    return _Data(tasks.counted(chosen), train, test, folds)


def _asked(flag, protocol, model, data):
    """All that the results depend on, in plain values; where the files of the network are does not matter."""
    places = ("run", "checkpoint", "model")
    return {
        "solver": flag.solver,
        **({"mirror": True} if flag.mirror else {}),  # left out where it is not, as in results from before there was it
        "protocol": {**probe_protocols.facts(protocol, flag.solver), "layers": model.layers},
        "network": {name: value for name, value in model.origin.items() if name not in places},
        "data": {
            "dataset": flag.dataset,
            "labels": len(data.train.label_names),
            "train": {"split": data.train.split, "images": data.train.count},
            "test": {"split": data.test.split, "images": data.test.count},
            **{name: flag[name].value for name in ("label_fraction", "labels_per_class", "folds")},
        },
        "seed": flag.seed,
    }


def _default_folder(flag, protocol, model, asked):
    from lci_tf.runs import results_folder

    origin = model.origin
    network = "random" if "random" in origin else f"step-{origin['step']}" if "step" in origin else "model"
    name = f"{protocol.name}_{flag.solver}_{network}_{results_folder.digest(asked)}"
    return pathlib.Path(origin.get("run", "")) / "probe" / name


def _probe(flag, model, features, protocol, data, folder):
    """What was found, fold by fold, and what else to keep."""
    from lci_tf.data import cache, share
    from lci_tf.evaluation.probe import linear_probe, ridge_probe, tasks

    def task_of(source):
        views = "ten" if flag.multi_crop else "centre"
        return tasks.by_labels(source, data.test, protocol, flag.seed, views, flag.max_bad_images)

    def train_and_test(source, place):
        if flag.cache:
            source = cache.in_memory(source, protocol.resize)
        return linear_probe.probe(features, task_of(source), protocol, place, flag.seed, flag.checkpoint_every)

    if "random" in model.origin:
        tasks.settle(model, task_of(data.all_train))
    if flag.solver == "ridge":
        found, regularisers = ridge_probe.probe(features, task_of(data.train), flag.seed, data.folds, flag.mirror)
        return found, {"regularisers": regularisers}
    if not data.folds:
        return [train_and_test(data.train, folder)], {}
    folds = {f"fold_{n}": share.of_numbers(data.train, numbers) for n, numbers in enumerate(data.folds, 1)}
    return [train_and_test(source, folder / name) for name, source in folds.items()], {}


def _probe_tiles(flag, model):
    """Natural or permuted? See `transfer.tiles`."""
    from lci_tf.data import labelled
    from lci_tf.evaluation.probe import probe_results, tasks
    from lci_tf.evaluation.probe import tiles_task as tiles
    from lci_tf.plotting import pictures
    from lci_tf.runs import results_folder
    from lci_tf.runs import run as runs

    seams = tiles.load(flag.seam_run_dir)
    protocol = _protocol(flag, "tiles", seams.crops.crop_size, seams.crops.resize)
    if not flag.layers and not set(protocol.layers) <= set(model.layers):
        protocol = dataclasses.replace(protocol, layers=model.layers)  # of a network from elsewhere
    model = model.only(protocol.layers)
    train, test = labelled.open_images(flag.dataset, flag.data_dir, flag.split, flag.test_split)
    data = _Data(tasks.counted(train), train, test, None)
    asked = _asked(flag, protocol, model, data)
    asked["seams"] = {name: value for name, value in seams.origin.items() if name != "checkpoint"}
    folder = pathlib.Path(flag.out_dir or _default_folder(flag, protocol, model, asked))
    results = results_folder.begin(folder, asked, "probe")
    if results is None:
        print(f"Linear probe {protocol.name!r}\n{probe_protocols.describe(protocol)}")
        pictures.save(folder / "examples.png", tiles.examples(seams, test, protocol, flag.seed, flag.max_bad_images))
        found = _answers(flag, model, protocol, data, seams, folder)
        layers = probe_results.results_of([found], tiles.ANSWERS)
        network = {"network": model.origin, "seams": seams.origin}
        results = {**asked, **network, "layers": layers, "versions": runs.versions()}
        probe_results.keep(folder, results)
    print(tiles.table(results))
    print(f"Results    {folder / 'results.json'}")
    print(f"Examples   {folder / 'examples.png'}")


def _answers(flag, model, protocol, data, seams, folder):
    """Layer -> question -> how good the answers are."""
    from lci_tf.data import cache
    from lci_tf.evaluation.probe import linear_probe, ridge_probe, tasks
    from lci_tf.evaluation.probe import tiles_task as tiles
    from lci_tf.evaluation.probe.frozen import FrozenFeatures
    from lci_tf.evaluation.probe.head_evaluation import SINGLE

    features = FrozenFeatures(model, protocol)
    train = cache.in_memory(data.train, protocol.resize) if flag.cache else data.train
    asked = {
        question: tiles.task(question, train, data.test, seams, protocol, flag.seed, flag.max_bad_images)
        for question in tiles.QUESTIONS
    }
    if "random" in model.origin:
        tasks.settle(model, next(iter(asked.values())))
    answers = {layer: {} for layer in features.layers}
    for question, task in asked.items():
        if flag.solver == "ridge":
            ((found,), _) = ridge_probe.probe(features, task, flag.seed)
        else:
            place = folder / question.replace(" ", "_")
            found = linear_probe.probe(features, task, protocol, place, flag.seed, flag.checkpoint_every)
        for layer in features.layers:
            answers[layer][question] = found[layer][SINGLE]
    return answers


if __name__ == "__main__":
    cli.run(main, __doc__)
