"""Fine-tunes and tests a network that classifies images: from C to the results."""

import dataclasses
import shutil

import numpy as np
import tensorflow as tf

from lci_tf import files, runs
from lci_tf.config import voc_protocols
from lci_tf.config.voc_protocols import Classification
from lci_tf.data import labelled, pipeline, share
from lci_tf.data.crops import RandomViews
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import Source
from lci_tf.errors import InputError
from lci_tf.evaluation.finetune.finetune_results import save_network
from lci_tf.evaluation.voc import rescaling, task, trunk
from lci_tf.evaluation.voc.classification import drawings, testing
from lci_tf.evaluation.voc.classification.network import Classifier
from lci_tf.evaluation.voc.classification.training import Scorer, Training, crops_of
from lci_tf.evaluation.voc.task import Answer, Request
from lci_tf.runs import Run, provenance, results_folder
from lci_tf.runs.trained import FeatureModel
from lci_tf.training import memory

_RESCALING, _TESTING = 1, 2  # added to the seed, so that these draws and those of the training are independent


def run(model: FeatureModel, protocol: Classification, request: Request) -> Answer:
    """Trains, tests and writes the files that `testing` lists, or returns the results if they exist already."""
    train, validation, test = _open(protocol, request)
    parts = {"train": train, "validation": validation, "test": test}
    data = {"labels": len(train.label_names),
            **{name: part and provenance.of_images(part) for name, part in parts.items()}}  # fmt: skip
    asked, folder, results = task.begin("classification", model, protocol, request, data)
    if results is None:
        classifier = build(model, protocol, train, request.seed, request.max_bad_images)
        memory.require(memory.estimate({classifier.model: 1}, protocol.batch_size))
        _announce(classifier, protocol, train, validation, test)
        training = Training(classifier, train, validation, protocol, request.seed, request.max_bad_images)
        if not (folder / "checkpoints").is_dir():
            training.save_picture(folder / drawings.TRAINING)
        iterations = training.run(Run(folder), request.checkpoint_every)
        save_network(folder, classifier.model, train.label_names)
        found = _test(classifier, protocol, request, test, folder)
        results = {**asked, "protocol": dataclasses.asdict(protocol), "network": model.origin,
                   "origins": classifier.trunk.origins, "iterations": iterations,
                   "best_iteration": training.best_iteration, **found, "versions": runs.versions()}  # fmt: skip
        results_folder.keep(folder, results)
        shutil.rmtree(folder / "checkpoints")
    looks = {"Precision": drawings.CURVES, "Mistakes": drawings.MISTAKES, "Keras": "model.keras"}
    return Answer(folder, asked, results, testing.table(results), looks)


def build(
    model: FeatureModel, protocol: Classification, train: Source, seed: int = 0, max_bad_images: float = 0.01
) -> Classifier:
    """Builds the network, its trunk rescaled on some of the training images."""
    few = share.at_most(train, rescaling.IMAGES)
    views, report = RandomViews(1, seed + _RESCALING), InputReport(few, max_bad_images)
    with report.one_line_errors():
        batches = pipeline.evaluation_batches(few, crops_of(protocol), 16, report, views)
        images = tf.concat([batch["image"][:, 0][batch["valid"]] for batch in batches], axis=0)
    made = trunk.build(model, protocol.crop_size, images, protocol.rescale, seed, protocol.start_anew == "fc8")
    if protocol.layers == "fc6-8" and not made.fc6:
        raise InputError("--train_layers=fc6-8: this network has no fc6; give all or fc8")
    return Classifier(made, len(train.label_names), protocol, seed)


def _open(protocol, request):
    """Images to train on, to validate with (or None), and to test on."""
    train, test = labelled.open_labelled(
        request.dataset,
        request.data_dirs,
        kinds=("multi-label",),
        train_split=request.train_split,
        test_split=request.test_split,
    )
    for source in (train, test):
        _check_files(source)
    if protocol.validation:
        return *labelled.hold_out(train, protocol.validation, request.seed), test
    return train, None, test


def _check_files(source):
    """Raises `InputError` if listed images are missing, before the training and not in the middle of it."""
    paths = getattr(source, "paths", ())
    missing = next((path for path in paths if not files.as_path(path).exists()), None)
    if missing:
        raise InputError(f"{missing}: no such image, though {source.name} {source.split} lists it")


def _announce(classifier, protocol, train, validation, test):
    parts = {"train on": train, "validate with": validation, "test on": test}
    counts = ", ".join(f"{part.count:,} to {what}" for what, part in parts.items() if part and part.count)
    print(f"Classification {protocol.name!r}\n{voc_protocols.describe(protocol)}\n    {'images':28s} {counts}")
    print(f"Weights\n{classifier.trunk.describe()}\n    {'fc8':28s} new", flush=True)


def _test(classifier, protocol, request, test, folder):
    """Tests the network. Writes scores and drawings, and returns the results."""
    views, report = RandomViews(protocol.crops, request.seed + _TESTING), InputReport(test, request.max_bad_images)
    found = Scorer(classifier, test, protocol, views, report)()
    total = found.logits.sum(axis=1)
    np.savez_compressed(folder / "scores.npz", scores=total, labels=found.labels, images=found.numbers,
                        names=np.array(test.label_names))  # fmt: skip
    results = testing.evaluate(found.logits, found.labels, test.label_names)
    drawings.save_test(folder, test, total, found, results)
    return results
