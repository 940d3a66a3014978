"""Fine-tunes a network on PASCAL VOC as in the paper's Table 4: for classification, detection or segmentation.

`--task=classification --run_dir=RUN --data_dir=VOCdevkit/VOC2007` trains on trainval and tests on test.
`--random_init` starts from random weights, for comparison. Batch normalisation is absorbed into the weights, and the
weights of AlexNet are rescaled. The protocols are for GPUs; on a small machine, give fewer `--iterations`, and the
learning rate drops correspondingly earlier. Started again with the same flags, it resumes where it stopped, or shows
its results."""

import importlib

from absl import flags

from lci_tf import cli
from lci_tf.config import voc_protocols
from lci_tf.errors import InputError

_TASK, _PROTOCOL, _OUTPUT = "Task", "Protocol", "Output"

flags.DEFINE_enum("task", "classification", voc_protocols.TASKS, "the task to fine-tune for", module_name=_TASK)
cli.define_data_flags(split_help="split to train on; by default trainval, or train")
flags.DEFINE_string("test_split", None, "split to test on; by default test, or val", module_name=cli.DATA)
cli.FLAGS.set_default("dataset", "voc/2007")
cli.define_model_flags()
flags.DEFINE_string("protocol", None, "training protocol; by default the first of the task: " + "; ".join(
    f"{task}: {', '.join(known)}" for task, known in voc_protocols.PROTOCOLS.items() if known), module_name=_PROTOCOL,
)  # fmt: skip
for _name, _text, _lowest in (
    ("iterations", "number of updates; drops of the learning rate move in proportion", 1),
    ("batch_size", "images per update", 1),
    ("short_side", "pixels to which the short side of images is resized; segmentation only makes them smaller", 8),
):
    flags.DEFINE_integer(_name, None, _text, _lowest, module_name=_PROTOCOL)
for _name, _text in (
    ("learning_rate", "initial learning rate"),
    ("weight_decay", "share of each weight that is added to its gradient"),
    ("dropout", "share of fc6 and fc7 that is dropped in training"),
):
    flags.DEFINE_float(_name, None, _text, 0.0, module_name=_PROTOCOL)
flags.DEFINE_boolean("rescale", None, "rescale the weights of AlexNet as Krähenbühl et al. do", module_name=_PROTOCOL)
_COMMON = ("iterations", "batch_size", "learning_rate", "weight_decay", "dropout", "rescale")

_CLASSIFICATION = "Classification"
flags.DEFINE_enum("train_layers", None, voc_protocols.LAYERS, "layers to train", module_name=_CLASSIFICATION)
flags.DEFINE_enum(
    "new_layers", None, ["fc8", "fc6-8"], "layers to start with new weights even if those of C fit; not for detection",
    module_name=_CLASSIFICATION,
)  # fmt: skip
for _name, _text, _lowest in (
    ("crop_size", "side of a crop in pixels", 67),
    ("crops", "random crops of each test image", 1),
    ("patience", "validations without improvement after which to stop", 1),
    ("check_every", "iterations between validations", 1),
):
    flags.DEFINE_integer(_name, None, _text, _lowest, module_name=_CLASSIFICATION)
flags.DEFINE_float("validation", None, "share of the training images held out to choose the best weights, or 0",
                   0.0, 0.9, module_name=_CLASSIFICATION)  # fmt: skip

_DETECTION = "Detection"
flags.DEFINE_integer("rois", None, "regions per update, over all its images", 2, module_name=_DETECTION)
flags.DEFINE_list("proposals", [], "files with region proposals for all images; by default selective search finds them",
                  module_name=_DETECTION)  # fmt: skip
flags.DEFINE_string("proposals_dir", "runs/proposals", "folder in which selective search keeps its proposals",
                    module_name=_DETECTION)  # fmt: skip
flags.DEFINE_integer("processes", None, "number of processes for selective search; by default one per processor", 1,
                     module_name=_DETECTION)  # fmt: skip

_SEGMENTATION = "Segmentation"
flags.DEFINE_string("class_names", None, "for --dataset=folder: file with a class name on each line, the first for "
                    "pixels that are 0 in masks [DATA_DIR/classes.txt]", module_name=_SEGMENTATION)  # fmt: skip
flags.DEFINE_list("void", [], "further numbers in masks that do not count, besides 255", module_name=_SEGMENTATION)
flags.DEFINE_integer("padding", None, "pixels added around each image", 0, module_name=_SEGMENTATION)
flags.DEFINE_integer("at_once", 4, "how many images of the same size go through the network together", 1,
                     module_name=_SEGMENTATION)  # fmt: skip
flags.register_validator("void", lambda numbers: all(n.isdecimal() and int(n) < 256 for n in numbers),
                         "expected numbers from 0 to 255, separated by commas")  # fmt: skip

flags.DEFINE_string("out_dir", None, "folder for the results [RUN_DIR/voc/NAME, or runs/random/voc/NAME]",
                    module_name=_OUTPUT)  # fmt: skip
flags.DEFINE_integer("checkpoint_every", 1000, "iterations between checkpoints", 1, module_name=_OUTPUT)
flags.register_validator("dropout", lambda value: value is None or value < 1, "expected a share below 1")

# Task -> field of its protocol -> the flag that changes it.
_OVERRIDES = {
    "classification": {
        "layers": "train_layers",
        "start_anew": "new_layers",
        **{n: n for n in ("crop_size", "short_side", "crops", "validation", "patience", "check_every")},
    },
    "detection": {"short_side": "short_side", "rois": "rois"},
    "segmentation": {"short_side": "short_side", "padding": "padding", "start_anew": "new_layers"},
}
# Task -> flags that are not about its protocol.
_OPTIONS = {
    "classification": (),
    "detection": ("proposals", "proposals_dir", "processes"),
    "segmentation": ("class_names", "void", "at_once"),
}


def main() -> None:
    flag = cli.FLAGS
    protocol = _protocol(flag)
    from lci_tf.evaluation.voc.task import Request
    from lci_tf.runs import provenance

    module = importlib.import_module(f"lci_tf.evaluation.voc.{flag.task}.{flag.task}")
    if flag.random_init and not flag.run_dir and flag.backbone is None:
        flag["backbone"].value = "alexnet"  # the paper's, where the default of --dataset is for small images
    model = cli.model_from_flags()  # refuses what is not trusted before anything is downloaded
    if flag.task != "segmentation":  # tensorflow-datasets has no masks of VOC
        cli.fetch_if_allowed(flag.dataset, flag.data_dir)
    request = Request(
        dataset=flag.dataset,
        data_dirs=tuple(flag.data_dir),
        train_split=flag.split,
        test_split=flag.test_split,
        max_bad_images=flag.max_bad_images,
        seed=flag.seed,
        out_dir=flag.out_dir,
        checkpoint_every=flag.checkpoint_every,
        options={name: flag[name].value for name in _OPTIONS[flag.task]},
    )
    answer = module.run(model, protocol, request)
    if flag.task == "classification":
        _export(answer, protocol)
    print(answer.table)
    print(f"Inputs     {provenance.line(answer.asked)}")
    for what, name in {"Results": "results.json", **answer.files}.items():
        if (answer.folder / name).exists():  # without mistakes there is no picture of them
            print(f"{what:10s} {answer.folder / name}")
    print(f"Curves     tensorboard --logdir={answer.folder}")


def _export(answer, protocol):
    """Exports the classifier, unless it is exported already; the export classifies ten fixed crops."""
    folder = answer.folder / "export"
    if not folder.is_dir():
        import tensorflow as tf

        from lci_tf.evaluation.finetune import classifier
        from lci_tf.serving.export import exporting

        network = tf.keras.models.load_model(answer.folder / "model.keras", compile=False)
        names = (answer.folder / "labels.txt").read_text().splitlines()
        answers = classifier.answers(network, names, "multi-label")
        resize = round(protocol.crop_size * 256 / 227)  # as is usual for AlexNet
        exporting.export_classifier(answers, network.variables, folder, names, protocol.crop_size, resize, views="ten")
    answer.files["Export"] = "export"


def _protocol(flag):
    for task, names in _OPTIONS.items():
        for name in names:
            if flag[name].present and name not in _OPTIONS[flag.task]:
                raise InputError(f"--{name}: only for --task={task}")
    given = {name: flag[name].value for name in _COMMON}
    for task, fields in _OVERRIDES.items():
        for field, name in fields.items():
            if flag[name].value is None:
                continue
            if flag.task != task and name not in _OVERRIDES[flag.task].values():
                raise InputError(f"--{name}: only for --task={task}")
            given[field] = flag[name].value
    given = {name: value for name, value in given.items() if value is not None}
    return voc_protocols.resolve(flag.task, flag.protocol, given)


if __name__ == "__main__":
    cli.run(main, __doc__)
