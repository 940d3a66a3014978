"""Fine-tunes a network on labelled images, measures it on test images, and exports the classifier.

`--run_dir=RUN --dataset=folder --data_dir=DIR` is all it takes for a folder with one subfolder of images per class.
`--random_init` starts from random weights: the supervised baseline. `--dataset=stl10` is the paper's protocol for
STL-10. Started again with the same flags, it resumes where it stopped, or shows its results."""

import dataclasses
import os
import pathlib
import shutil

from absl import flags

from lci_tf import cli
from lci_tf.config import finetune_protocols
from lci_tf.errors import InputError

_PROTOCOL, _OUTPUT = "Protocol", "Output"

cli.define_labelled_data_flags()
cli.define_model_flags()
flags.DEFINE_enum(
    "protocol", None, list(finetune_protocols.PROTOCOLS), "training protocol [that of --dataset, or few_labels]",
    module_name=_PROTOCOL,
)  # fmt: skip
flags.DEFINE_string("from_layer", None, "lowest layer to train, or head for the new layers only [all layers]",
                    module_name=_PROTOCOL)  # fmt: skip
for _name, _text, _lowest in (
    ("crop_size", "side of a crop in pixels; by default as in pre-training", 8),
    ("resize", "short side of images before cropping, in pixels; smaller images are not enlarged", 8),
    ("epochs", "passes over the training images", 1),
    ("patience", "epochs without improvement on the validation images after which to stop", 1),
    ("batch_size", "images per step, over all replicas", 1),
):
    flags.DEFINE_integer(_name, None, _text, _lowest, module_name=_PROTOCOL)
for _name, _text in (
    ("learning_rate", "initial learning rate of the new layers"),
    ("pretrained_learning_rate", "initial learning rate of the pre-trained layers"),
    ("weight_decay", "share of each weight lost per step, at the start"),
):
    flags.DEFINE_float(_name, None, _text, 0.0, module_name=_PROTOCOL)
flags.DEFINE_float("validation", None, "share of the training images held out to choose the best weights, or 0",
                   0.0, 0.9, module_name=_PROTOCOL)  # fmt: skip
flags.DEFINE_boolean(
    "strong_augmentation", None, "vary scale and colours, besides random crops and mirroring", module_name=_PROTOCOL
)
flags.DEFINE_boolean(
    "multi_crop",
    None,
    "classify ten crops of each image, not only its centre; also in the exported model",
    module_name=_PROTOCOL,
)
cli.define_label_flags()
flags.DEFINE_string(
    "out_dir", None, "folder for the results [RUN_DIR/finetune/NAME, or runs/random/finetune/NAME]", module_name=_OUTPUT
)
flags.DEFINE_integer("checkpoint_every", 500, "steps between checkpoints", 1, module_name=_OUTPUT)
for _name in ("learning_rate", "pretrained_learning_rate"):
    flags.register_validator(_name, lambda v: v is None or v > 0, "expected a rate above 0")

_OVERRIDES = ("from_layer", "crop_size", "resize", "epochs", "patience", "batch_size", "learning_rate", "weight_decay",
              "pretrained_learning_rate", "validation", "strong_augmentation", "multi_crop")  # fmt: skip


def main() -> None:
    flag = cli.FLAGS
    _check(flag)
    from lci_tf import runs
    from lci_tf.evaluation.finetune import classifier, finetune_results
    from lci_tf.runs import provenance, results_folder
    from lci_tf.training import memory, strategy

    devices = strategy.choose()
    with devices.scope():
        model = _up_to_layer(flag, cli.model_from_flags())
        protocol = _protocol(flag, model)
        classifier.freeze_below(model, protocol.from_layer)
        train, validation, test = _open(flag, protocol)
        network = classifier.build(model, len(train.label_names), train.label_kind, protocol.crop_size, flag.seed)
    asked = _asked(flag, protocol, model, train, validation, test)
    folder = pathlib.Path(flag.out_dir or results_folder.default("finetune", [protocol.name], model.origin, asked))
    results = results_folder.begin(folder, asked, "fine-tuning")
    if results is None:
        print(f"Fine-tuning {protocol.name!r}\n{finetune_protocols.describe(protocol, not flag.random_init)}")
        print(f"    {'images':28s} {_counts(train, validation, test)}")
        memory.require(memory.estimate({network: 1}, min(protocol.batch_size, train.count), devices))
        tuning = _tuning(flag, devices, model, network, protocol, train, validation)
        epochs = tuning.train(runs.Run(folder), flag.checkpoint_every)
        network = finetune_results.save_network(folder, network, train.label_names)
        found = _test(flag, network, protocol, test, folder)
        results = {**asked, "protocol": dataclasses.asdict(protocol), "network": model.origin, "epochs_trained": epochs,
                   "best_epoch": tuning.best_epoch, **found, "versions": runs.versions()}  # fmt: skip
        _export(folder, network, protocol, train)
        results_folder.keep(folder, results)
        shutil.rmtree(folder / "checkpoints")
    print(finetune_results.table(results))
    print(f"Inputs     {provenance.line(asked)}")
    print(f"Results    {folder / 'results.json'}")
    print(f"Curves     tensorboard --logdir={folder}")
    print(f"Keras      {folder / 'model.keras'}")
    print(f"Export     {folder / 'export'}")
    print(f"Serve it   scripts/serve {folder / 'export'}")


def _check(flag):
    """Refuses flags that do not go together, before anything is opened."""
    cli.check_label_flags()
    if len(flag.layers) > 1:
        raise InputError("--layers: the new layers go on a single feature map; give the last layer to keep")
    if flag.random_init and flag.from_layer:
        raise InputError("--from_layer: --random_init has no learned layers to keep; leave out one of the two")
    if "TF_CONFIG" in os.environ:
        raise InputError("TF_CONFIG: fine-tuning runs on the devices of one machine; unset it")


def _up_to_layer(flag, model):
    """The network up to the feature map on which the new layers go."""
    if flag.layers:
        (top,) = model.only(flag.layers).layers
        return model.only(model.layers[: model.layers.index(top) + 1])
    if flag.model and len(model.layers) > 1:
        raise InputError(
            f"--layers: missing; give the feature map for the new layers, one of {', '.join(model.layers)}"
        )
    return model


def _protocol(flag, model):
    given = {name: flag[name].value for name in _OVERRIDES if flag[name].value is not None}
    few = bool(flag.label_fraction or flag.labels_per_class)
    name = flag.protocol or finetune_protocols.name_for(flag.dataset, few)
    return finetune_protocols.resolve(name, given, model.crop_size, model.resize)


def _open(flag, protocol):
    """Images to train on, to validate with (or None), and to test on."""
    from lci_tf.data import labelled
    from lci_tf.data.source import check_batch

    cli.fetch_if_allowed(flag.dataset, flag.data_dir)
    train, test = labelled.open_labelled(
        flag.dataset, flag.data_dir, kinds=("class", "multi-label"), train_split=flag.split, test_split=flag.test_split
    )
    if flag.label_fraction or flag.labels_per_class:
        train = labelled.few(train, flag.label_fraction, flag.labels_per_class, flag.seed)
    validation = None
    if protocol.validation:
        train, validation = labelled.hold_out(train, protocol.validation, flag.seed)
    else:
        train = dataclasses.replace(train, count=len(labelled.labels_of(train)))
    if flag.batch_size:  # a protocol's is lowered to the number of images
        check_batch(flag.batch_size, train.name, train.split, train.count)
    return train, validation, test


def _counts(train, validation, test):
    parts = {"train on": train, "validate with": validation, "test on": test}
    return ", ".join(f"{part.count:,} to {what}" for what, part in parts.items() if part and part.count)


def _asked(flag, protocol, model, train, validation, test):
    """Everything that the results depend on, in plain values; see `provenance`."""
    from lci_tf.runs import provenance

    parts = {"train": train, "validation": validation, "test": test}
    return provenance.question(
        protocol={name: value for name, value in dataclasses.asdict(protocol).items() if name != "changed"},
        network=provenance.of_network(model.origin),
        layers=model.layers,
        data={
            "dataset": flag.dataset,
            "labels": len(train.label_names),
            **{name: part and provenance.of_images(part) for name, part in parts.items()},
            "label_fraction": flag.label_fraction,
            "labels_per_class": flag.labels_per_class,
        },
        seed=flag.seed,
    )


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
    from lci_tf.evaluation.finetune.classifier import Tester
    from lci_tf.imaging import images

    views = "ten" if protocol.multi_crop else "centre"
    at_once = max(1, protocol.batch_size // len(images.VIEWS[views]))
    crops, report = Crops(protocol.crop_size, protocol.resize), InputReport(source, flag.max_bad_images)
    probabilities, labels = Tester(network, source, crops, at_once, report, views)()
    return finetune_results.evaluate(folder, probabilities, labels, source.label_names)


def _export(folder, network, protocol, train):
    from lci_tf.evaluation.finetune import classifier
    from lci_tf.serving.export import exporting

    exporting.export_classifier(
        classifier.answers(network, train.label_names, train.label_kind),
        network.variables,
        folder / "export",
        train.label_names,
        protocol.crop_size,
        protocol.resize,
        views="ten" if protocol.multi_crop else "centre",
    )


if __name__ == "__main__":
    cli.run(main, __doc__)
