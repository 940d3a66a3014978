"""Fine-tunes and tests a detector: from C to the results. Their folder contains:

results.json, protocol.json   see `results_folder`
export/1/                     a SavedModel from pixels and proposals to detections, see `finding.Finder.find`
detections.npz                all detections in the test images, see `judging.Detections`, and the images' numbers
training_regions.png, detections.png, worst_mistakes.png, precision_recall.png
metrics.jsonl, tensorboard/   metrics during training
checkpoints/, found/          deleted when it is finished
"""

import dataclasses
import pathlib
import shutil

import numpy as np

from lci_tf import runs
from lci_tf.config import voc_protocols
from lci_tf.config.voc_protocols import Detection
from lci_tf.data import labelled
from lci_tf.data.sets.voc import CLASSES
from lci_tf.data.source import ImageFiles
from lci_tf.errors import InputError
from lci_tf.evaluation.results import number, percent
from lci_tf.evaluation.voc import rescaling, task, trunk
from lci_tf.evaluation.voc.detection import (
    annotations,
    boxes,
    drawings,
    examples,
    judging,
    proposals,
    selective_search,
    unpacking,
)
from lci_tf.evaluation.voc.detection.detector import Detector, MapGrid
from lci_tf.evaluation.voc.detection.examples import Images
from lci_tf.evaluation.voc.detection.finding import Finder
from lci_tf.evaluation.voc.detection.training import Training
from lci_tf.evaluation.voc.task import Answer, Request
from lci_tf.runs import Run, provenance, results_folder
from lci_tf.runs.trained import FeatureModel

ELEVEN, ALL = "eleven_points", "all_points"


def run(model: FeatureModel, protocol: Detection, request: Request) -> Answer:
    """Trains, tests and writes the files listed above, or returns the results if they exist already.

    Options of the request: `proposals`, files with proposals, or none for selective search; `proposals_dir`, the folder
    for what that finds, and for images unpacked from tensorflow-datasets; `processes`, how many of them search.
    """
    if not request.dataset.startswith("voc/"):
        raise InputError(f"--dataset={request.dataset}: has no boxes; --task=detection needs voc/2007 or voc/2012")
    opened = labelled.open_labelled(
        request.dataset,
        request.data_dirs,
        kinds=("multi-label",),
        train_split=request.train_split,
        test_split=request.test_split,
    )
    sources = [_as_files(source, request) for source in opened]
    train, test = _with_proposals([annotations.read(source) for source in sources], request.options)
    data = {"train": _identified(sources[0], train), "test": _identified(sources[1], test)}
    asked, folder, results = task.begin("detection", model, protocol, request, data)
    if results is None:
        detector = build(model, protocol, train, request.seed)
        _announce(detector, protocol, train, test)
        training = Training(detector, train, protocol, request.seed)
        if not (folder / drawings.REGIONS).is_file():
            with examples.one_line_errors(train.annotated):
                drawings.save_regions(next(iter(training.batches())), folder / drawings.REGIONS)
        iterations = training.run(Run(folder), request.checkpoint_every)
        finder = Finder(detector, protocol)
        found = _test(finder, test, folder)
        finder.export(folder / "export")
        results = {**asked, "protocol": dataclasses.asdict(protocol), "network": model.origin,
                   "origins": detector.trunk.origins, "iterations": iterations, **found,
                   "versions": runs.versions()}  # fmt: skip
        results_folder.keep(folder, results)
        for finished in ("checkpoints", "found"):
            shutil.rmtree(folder / finished)
    files = {"Found": drawings.FOUND, "Mistakes": drawings.MISTAKES, "Precision": drawings.CURVES, "Export": "export"}
    return Answer(folder, asked, results, table(results), files)


def build(model: FeatureModel, protocol: Detection, train: Images, seed: int = 0) -> Detector:
    """Builds the detector, its trunk rescaled on some of the training images."""
    trunk.require_any_size(model, "detection")
    made = trunk.build(model, seed=seed)
    size = 224
    if made.fc6:  # images whose pool5 has the size that fc6 takes
        grid = MapGrid.of(made.convolutions)
        size = grid.stride * (2 * made.grid + (grid.spare > 0)) + grid.spare
    chosen = np.random.default_rng(seed).permutation(len(train.annotated))[: rescaling.IMAGES]
    with examples.one_line_errors(train.annotated):
        seen = examples.crops([train.annotated[i].path for i in chosen], size)
    made = trunk.build(model, None, seen, protocol.rescale, seed)
    return Detector(made, len(CLASSES), protocol.class_deviation, protocol.box_deviation, protocol.dropout, seed)


def table(results: dict) -> str:
    """The results as a table in percent: average precision of each class, by both of VOC's definitions."""
    of_eleven, of_all = results[ELEVEN], results[ALL]
    rows = [("mean", of_eleven["average_precision"], of_all["average_precision"], sum(results["objects"].values()))]
    rows += [(c, of_eleven["per_class"][c], of_all["per_class"][c], results["objects"][c]) for c in results["objects"]]
    lines = [f"Average precision in percent, on {results['test_images']:,} test images; selected regions can reach "
             f"{percent(results['proposals']['recall'])} % of the objects",
             f"  {'':14s}{'11 points':>12s}{'all points':>12s}{'objects':>10s}"]  # fmt: skip
    lines += [
        f"  {name:14s}{percent(eleven):>12s}{percent(every):>12s}{count:>10,}" for name, eleven, every, count in rows
    ]
    return "\n".join(lines)


def _as_files(source, request) -> ImageFiles:
    if isinstance(source, ImageFiles):
        return source
    return unpacking.unpack(source, _kept(request.options) / "images")


def _kept(options) -> pathlib.Path:
    """The folder for proposals and unpacked images, which all runs share."""
    return pathlib.Path(options.get("proposals_dir") or "runs/proposals").expanduser()


def _with_proposals(parts, options) -> list[Images]:
    """Adds proposals to the annotated images of each part."""
    joined = [one for part in parts for one in part]
    if options.get("proposals"):
        found = proposals.read(options["proposals"], joined)
    else:
        found = selective_search.search([one.path for one in joined], _kept(options), options.get("processes"))
    rest = iter(found)
    return [Images(part, [next(rest) for _ in part]) for part in parts]


def _identified(source, of):
    """A part of the data in plain values: images, objects and proposals; see `provenance`."""
    return {
        **provenance.of_images(source),
        "boxes": annotations.digest(of.annotated),
        "proposals": proposals.digest(of.proposals),
    }


def _announce(detector, protocol, train, test):
    print(f"Detection {protocol.name!r}\n{voc_protocols.describe(protocol)}")
    print(f"    {'images':28s} {len(train.annotated):,} to train on, {len(test.annotated):,} to test on")
    print(f"    {'proposals':28s} {np.mean([len(p) for p in train.proposals]):.0f} per image")
    fixed = f", of which {', '.join(protocol.fixed)} is not trained" if protocol.fixed else ""
    new = "class scores, boxes"
    print(f"Weights{fixed}\n{detector.trunk.describe()}\n    {new:28s} new", flush=True)


def _test(finder, test, folder):
    """Tests the detector. Writes detections and drawings, and returns the results."""
    found = finder.find_all(test, folder / "found")
    np.savez_compressed(folder / "detections.npz", **found._asdict(),
                        numbers=np.array([one.number for one in test.annotated]))  # fmt: skip
    judged = judging.verdicts(found, test.annotated)
    curves = [judging.curve(found, judged, test.annotated, number) for number in range(len(CLASSES))]
    kept = {"test_images": len(test.annotated), "objects": {c: k.objects for c, k in zip(CLASSES, curves, strict=True)}}
    for name, points in ((ELEVEN, 11), (ALL, None)):
        values = [judging.average_precision(of, points) for of in curves]
        kept[name] = {
            "average_precision": number(np.mean([value for value in values if not np.isnan(value)])),
            "per_class": {c: number(value) for c, value in zip(CLASSES, values, strict=True)},
        }
        if points:
            drawings.save_test(folder, test.annotated, found, judged, curves, values)
    per_image = float(np.mean([len(p) for p in test.proposals]))
    kept["proposals"] = {"recall": _recall(test), "per_image": per_image}
    return kept


def _recall(of: Images) -> float | None:
    """The share of objects that a proposal overlaps enough: an upper bound, if proposals could not be moved."""
    overlaps = [
        boxes.iou(one.boxes[~one.difficult], proposed).max(axis=1, initial=0.0)
        for one, proposed in zip(of.annotated, of.proposals, strict=True)
    ]
    return number(np.mean(np.concatenate(overlaps) >= judging.LEAST_OVERLAP))
