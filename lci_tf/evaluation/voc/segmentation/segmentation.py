"""Fine-tunes and tests a network for segmentation: from C to the results. Their folder contains:

results.json, protocol.json   see `results_folder`
masks/                        masks of the test images, as PNGs with VOC's palette
masks.png, mistakes.png       some of them next to the truth, and the worst
confusion.png                 how the pixels of each class were classified
training_images.png           training images with their masks
model.keras                   from padded images to scores, see `network.FCN`
metrics.jsonl, tensorboard/   metrics during training
checkpoints/                  deleted when it is finished
"""

import dataclasses
import shutil

import numpy as np
import tensorflow as tf

from lci_tf import runs
from lci_tf.config import voc_protocols
from lci_tf.config.voc_protocols import Segmentation
from lci_tf.errors import InputError
from lci_tf.evaluation.voc import rescaling, task, trunk
from lci_tf.evaluation.voc.segmentation import drawings, sources, testing
from lci_tf.evaluation.voc.segmentation.loading import Loader
from lci_tf.evaluation.voc.segmentation.masked_images import MaskedImages
from lci_tf.evaluation.voc.segmentation.network import FCN
from lci_tf.evaluation.voc.segmentation.training import Training
from lci_tf.evaluation.voc.task import Answer, Request
from lci_tf.imaging import images as imaging
from lci_tf.plotting import plots
from lci_tf.plotting.pictures import save
from lci_tf.runs import Run, provenance, results_folder
from lci_tf.runs.trained import FeatureModel

_VOC = {"voc/2007": "2007", "voc/2012": "2012"}
_SHOWN = 8  # training images in their picture
_AS_THEY_ARE = 2.0**20  # a short side that no image reaches
TRAINING, MASKS, MISTAKES, CONFUSION = "training_images.png", "masks.png", "mistakes.png", "confusion.png"


def run(model: FeatureModel, protocol: Segmentation, request: Request) -> Answer:
    """Trains, tests and writes the files listed above, or returns the results if they exist already."""
    train, test = find(request)
    data = {"classes": train.names, "train": provenance.of_images(train), "test": provenance.of_images(test)}
    asked, folder, results = task.begin("segmentation", model, protocol, request, data)
    if results is None:
        shares = [_shares(source) for source in (train, test)]
        made = build_trunk(model, protocol, train, request.seed)
        fcn = FCN(made, len(train.names), protocol.padding)
        _announce(made, protocol, train, test, shares[0])
        loader, at_once = Loader(train, protocol.short_side), request.options["at_once"]
        first = next(loader.training(request.seed, min(_SHOWN, train.count)))
        save(folder / TRAINING, drawings.examples(first, train.names))
        Training(fcn, loader, protocol, at_once, request.seed).run(Run(folder), request.checkpoint_every)
        fcn.scorer.save(folder / "model.keras")
        loader = Loader(test, protocol.short_side)
        score, shown = testing.test(fcn, test, loader, at_once, folder / "masks")
        _draw(folder, test.names, score, shown)
        results = {**asked, "protocol": dataclasses.asdict(protocol), "network": model.origin, "origins": made.origins,
                   "pixels": dict(zip(("train", "test"), shares, strict=True)), **testing.summary(score, test),
                   "versions": runs.versions()}  # fmt: skip
        results_folder.keep(folder, results)
        shutil.rmtree(folder / "checkpoints")
    files = {"Masks": MASKS, "Mistakes": MISTAKES, "Confusion": CONFUSION, "Keras": "model.keras"}
    return Answer(folder, asked, results, testing.table(results), files)


def find(request: Request) -> tuple[MaskedImages, MaskedImages]:
    """Images to train on and to test on."""
    class_names, void = request.options["class_names"], tuple(map(int, request.options["void"]))
    if len(request.data_dirs) != 1:
        raise InputError("--data_dir: missing; give the folder of the images and masks, as VOC from "
                         "tensorflow-datasets has no masks")  # fmt: skip
    (data_dir,) = request.data_dirs
    if request.dataset == "folder":
        return sources.find_folder(data_dir, class_names, void, request.train_split, request.test_split)
    if request.dataset not in _VOC:
        raise InputError(f"--dataset={request.dataset}: has no masks; --task=segmentation takes {', '.join(_VOC)}, and "
                         "folder")  # fmt: skip
    if class_names or void:
        raise InputError("--class_names and --void: only for --dataset=folder; VOC has its own")
    return sources.find_voc(_VOC[request.dataset], data_dir, request.train_split, request.test_split)


def _shares(source):
    """The share of pixels of each class, with void at the end."""
    counts = source.check()
    return dict(zip([*source.names, "(void)"], (counts / counts.sum()).tolist(), strict=True))


def build_trunk(model: FeatureModel, protocol: Segmentation, train: MaskedImages, seed: int) -> trunk.Trunk:
    """Builds the trunk, rescaled on crops of training images."""
    trunk.require_any_size(model, "segmentation")
    size = _whole(model)
    resize = max(protocol.short_side, size) if protocol.short_side else _AS_THEY_ARE
    numbers = np.random.default_rng(seed).permutation(train.count)[: rescaling.IMAGES]
    views = np.random.default_rng(seed + 1).uniform(size=[len(numbers), 1, 3]).astype(np.float32)

    @tf.function(input_signature=[tf.TensorSpec([], tf.string), tf.TensorSpec([1, 3])])
    def crop(path, view):
        return imaging.preprocess(tf.io.read_file(path), view, size, resize)

    crops = [crop(train.images[number], view) for number, view in zip(numbers, views, strict=True)]
    return trunk.build(model, size, tf.concat(crops, axis=0), protocol.rescale, seed, protocol.start_anew == "fc8")


def _whole(model):
    """The side of images whose pool5 has the size of fc6's input: 6×6, or that of C if it is smaller.

    As convolutions, fc6 and fc7 of any run fit. But from 7×7 on, their windows would reach beyond the padding.
    """
    grid = trunk.GRID
    if model.classifier and model.origin["backbone"] != "resnet34":
        shape = model.maps.compute_output_shape([1, model.crop_size, model.crop_size, 3])["conv5"]
        grid = min(grid, shape[1])
    return 32 * grid if model.origin.get("backbone") == "alexnet_small" else 35 + 32 * grid


def _announce(made, protocol, train, test, shares):
    print(f"Segmentation {protocol.name!r}\n{voc_protocols.describe(protocol)}")
    print(f"Weights\n{made.describe()}\n    {'score':28s} new")
    print(f"Images\n    {'counts':28s} {train.count:,} to train on, {test.count:,} to test on")
    shown = ", ".join(f"{name} {100 * share:.2g}" for name, share in shares.items())
    print(f"    {'pixels to train on, in %':28s} {shown}")


def _draw(folder, names, score, shown):
    save(folder / MASKS, drawings.comparison(shown.some, names))
    save(folder / MISTAKES, drawings.comparison(shown.worst, names))
    plots.save(plots.confusion_matrix(score.confusion, tuple(names), "pixels"), folder / CONFUSION)
    task.show_in_tensorboard(folder, (TRAINING, MASKS, MISTAKES, CONFUSION))
