"""Fine-tunes a network on labelled images, tells how good it is on test images, and exports the classifier.

`--run_dir=RUN --dataset=folder --data_dir=DIR` is all it takes for a folder with a folder of images per class. With
`--random_init` nothing is pre-trained: the supervised control. `--dataset=stl10` is the paper's protocol for STL-10.
Started again with the same flags, it goes on where it was left, or shows its results."""

import dataclasses
import os
import pathlib
import shutil

from absl import flags

from lci_tf import cli
from lci_tf.config import finetune_protocols
from lci_tf.errors import InputError

_PROTOCOL, _LABELS, _OUTPUT = "Protocol", "Labels", "Output"

cli.define_data_flags(split_help="which part to train on; by default the one for that, or the only one")
flags.DEFINE_string("test_split", None, "which part to test with, likewise; else the validation images",
                    module_name=cli.DATA)  # fmt: skip
flags.DEFINE_boolean("cache", False, "decode training images once and keep them in memory", module_name=cli.DATA)
cli.define_model_flags()
flags.DEFINE_enum(
    "protocol", None, list(finetune_protocols.PROTOCOLS), "how to train; by default that of --dataset, or few_labels",
    module_name=_PROTOCOL,
)  # fmt: skip
flags.DEFINE_string("from_layer", None, "the lowest layer to train, or head for the new layers alone [all layers]",
                    module_name=_PROTOCOL)  # fmt: skip
for _name, _text, _lowest in (
    ("crop_size", "side of a crop in pixels; by default as in pre-training", 8),
    ("resize", "short side of the image before a crop is cut; smaller images are not enlarged", 8),
    ("epochs", "passes over the training images", 1),
    ("patience", "epochs without a better validation after which to stop", 1),
    ("batch_size", "images per step, over all replicas", 1),
):
    flags.DEFINE_integer(_name, None, _text, _lowest, module_name=_PROTOCOL)
for _name, _text in (
    ("learning_rate", "of the new layers, at the start"),
    ("pretrained_learning_rate", "of the pre-trained layers, at the start"),
    ("weight_decay", "share of a weight lost per step, at the start"),
):
    flags.DEFINE_float(_name, None, _text, 0.0, module_name=_PROTOCOL)
flags.DEFINE_float("validation", None, "share of the training images to choose the best weights by; 0: the last ones",
                   0.0, 0.9, module_name=_PROTOCOL)  # fmt: skip
flags.DEFINE_boolean("strong_augmentation", None, "vary scale and colours too", module_name=_PROTOCOL)
flags.DEFINE_boolean("multi_crop", None, "test by ten crops too; the exported model does", module_name=_PROTOCOL)
flags.DEFINE_float("label_fraction", None, "train on this share of each class", module_name=_LABELS)
flags.DEFINE_integer("labels_per_class", None, "train on so many images of each class", 1, module_name=_LABELS)
flags.DEFINE_string("out_dir", None, "where all goes [RUN_DIR/finetune/NAME, or finetune/NAME]", module_name=_OUTPUT)
flags.DEFINE_integer("checkpoint_every", 500, "steps between checkpoints", 1, module_name=_OUTPUT)
flags.register_validator("label_fraction", lambda v: v is None or 0 < v <= 1, "expected a share above 0, up to 1")
for _name in ("learning_rate", "pretrained_learning_rate"):
    flags.register_validator(_name, lambda v: v is None or v > 0, "expected a rate above 0")

_OVERRIDES = ("from_layer", "crop_size", "resize", "epochs", "patience", "batch_size", "learning_rate", "weight_decay",
              "pretrained_learning_rate", "validation", "strong_augmentation", "multi_crop")  # fmt: skip


def main():
    flag = cli.FLAGS
    _check(flag)
    from lci_tf.evaluation.finetune import classifier, finetune_results
    from lci_tf.runs import results_folder
    from lci_tf.runs import run as runs
    from lci_tf.training import strategy

    devices = strategy.choose()
    with devices.scope():
        model = _up_to_layer(flag, cli.model_from_flags())
        protocol = _protocol(flag, model)
        classifier.freeze_below(model, protocol.from_layer)
        train, validation, test = _open(flag, protocol)
        network = classifier.build(model, len(train.label_names), train.label_kind, protocol.crop_size, flag.seed)
    asked = _asked(flag, protocol, model, train, validation, test)
    folder = pathlib.Path(flag.out_dir or _default_folder(protocol, model, asked))
    results = results_folder.begin(folder, asked, "fine-tuning")
    if results is None:
        print(f"Fine-tuning {protocol.name!r}\n{finetune_protocols.describe(protocol, not flag.random_init)}")
        print(f"    {'images':28s} {_counts(train, validation, test)}")
        tuning = _tuning(flag, devices, model, network, protocol, train, validation)
        epochs = tuning.train(runs.Run(folder), flag.checkpoint_every)
        network = finetune_results.save_network(folder, network, train.label_names)
        found = _test(flag, network, protocol, test or validation, folder)
        results = {**asked, "protocol": dataclasses.asdict(protocol), "network": model.origin, "epochs_trained": epochs,
                   "best_epoch": tuning.best_epoch, **found, "versions": runs.versions()}  # fmt: skip
        _export(folder, network, protocol, train)
        results_folder.keep(folder, results)
        shutil.rmtree(folder / "checkpoints")
    print(finetune_results.table(results))
    if not test:
        print("  These are the validation images, for there are no others: the best weights were chosen by them, so\n"
              "  that the figure is a little too good.")  # fmt: skip
    print(f"Results    {folder / 'results.json'}")
    print(f"Curves     tensorboard --logdir={folder}")
    print(f"Keras      {folder / 'model.keras'}")
    print(f"SavedModel {folder / 'saved_model'}")


def _check(flag):
    """What can be told before anything is opened."""
    if flag.label_fraction and flag.labels_per_class:
        raise InputError("--label_fraction and --labels_per_class: give one of them")
    if len(flag.layers) > 1:
        raise InputError("--layers: the new layers sit on one map; give the last layer to keep")
    if flag.random_init and flag.from_layer:
        raise InputError("--from_layer: --random_init has learned nothing that could be kept; leave one of them away")
    if "TF_CONFIG" in os.environ:
        raise InputError("TF_CONFIG: fine-tuning runs on the devices of one machine; unset it")


def _up_to_layer(flag, model):
    """The network up to the map on which the new layers sit."""
    if flag.layers:
        (top,) = model.only(flag.layers).layers
        return model.only(model.layers[: model.layers.index(top) + 1])
    if flag.model and len(model.layers) > 1:
        raise InputError(f"--layers: on which map shall the new layers sit? --model has {', '.join(model.layers)}")
    return model


def _protocol(flag, model):
    given = {name: flag[name].value for name in _OVERRIDES if flag[name].value is not None}
    few = bool(flag.label_fraction or flag.labels_per_class)
    name = flag.protocol or finetune_protocols.name_for(flag.dataset, few)
    return finetune_protocols.resolve(name, given, model.crop_size, model.resize)


def _open(flag, protocol):
    """Images to train on, to validate with, or None, and to test with, or None."""
    from lci_tf.data import labelled

    train, test = labelled.open_labelled(
        flag.dataset, flag.data_dir, kinds=("class", "multi-label"), train_split=flag.split, test_split=flag.test_split,
        share_out=False,
    )  # fmt: skip
    if flag.label_fraction or flag.labels_per_class:
        train = labelled.few(train, flag.label_fraction, flag.labels_per_class, flag.seed)
    if protocol.validation:
        return *labelled.hold_out(train, protocol.validation, flag.seed), test
    if not test:
        raise InputError(f"--validation=0: {flag.dataset} has no test images, so that nothing would tell how good the "
                         "classifier is; give a share above 0")  # fmt: skip
    return dataclasses.replace(train, count=len(labelled.labels_of(train))), None, test


def _counts(train, validation, test):
    parts = {"train on": train, "validate with": validation, "test with": test}
    return ", ".join(f"{part.count:,} to {what}" for what, part in parts.items() if part and part.count)


def _asked(flag, protocol, model, train, validation, test):
    """All that the results depend on, in plain values; where the files of the network are does not matter."""
    places = ("run", "checkpoint", "model")
    parts = {"train": train, "validation": validation, "test": test}
    return {
        "protocol": {name: value for name, value in dataclasses.asdict(protocol).items() if name != "changed"},
        "network": {name: value for name, value in model.origin.items() if name not in places},
        "layers": list(model.layers),
        "data": {
            "dataset": flag.dataset,
            "labels": len(train.label_names),
            **{name: part and {"split": part.split, "images": part.count} for name, part in parts.items()},
            "label_fraction": flag.label_fraction,
            "labels_per_class": flag.labels_per_class,
        },
        "seed": flag.seed,
    }


def _default_folder(protocol, model, asked):
    from lci_tf.runs import results_folder

    origin = model.origin
    network = "random" if "random" in origin else f"step-{origin['step']}" if "step" in origin else "model"
    name = f"{protocol.name}_{network}_{results_folder.digest(asked)}"
    return pathlib.Path(origin.get("run", "")) / "finetune" / name


def _tuning(flag, devices, model, network, protocol, train, validation):
    from lci_tf.data import cache
    from lci_tf.data.input_report import InputReport
    from lci_tf.data.pipeline import Crops
    from lci_tf.evaluation.finetune.finetuning import FineTuning, Part

    def part(source):
        if flag.cache:
            source = cache.in_memory(source, protocol.resize)
        return Part(source, InputReport(source, flag.max_bad_images))

    return FineTuning(
        network,
        None if flag.random_init else model.maps,
        part(train),
        part(validation) if validation else None,
        Crops(protocol.crop_size, protocol.resize),
        protocol,
        devices,
        flag.seed,
    )


def _test(flag, network, protocol, source, folder):
    from lci_tf.data.input_report import InputReport
    from lci_tf.data.pipeline import Crops
    from lci_tf.evaluation.finetune import finetune_results
    from lci_tf.evaluation.finetune.classifier import Predictor
    from lci_tf.imaging import images

    views = "ten" if protocol.multi_crop else "centre"
    at_once = max(1, protocol.batch_size // len(images.VIEWS[views]))
    crops, report = Crops(protocol.crop_size, protocol.resize), InputReport(source, flag.max_bad_images)
    probabilities, labels = Predictor(network, source, crops, at_once, report, views)()
    return finetune_results.evaluate(folder, probabilities, labels, source.label_names)


def _export(folder, network, protocol, train):
    from lci_tf.evaluation.finetune import classifier
    from lci_tf.serving.export import signatures

    signatures.save(
        folder / "saved_model",
        classifier.answers(network, train.label_names, train.label_kind),
        network.variables,
        protocol.crop_size,
        protocol.resize,
        views="ten" if protocol.multi_crop else "centre",
        assets=[folder / "labels.txt"],
    )


if __name__ == "__main__":
    cli.run(main, __doc__)
