import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from lci_tf.config import voc_protocols
from lci_tf.data import labelled
from lci_tf.data.crops import RandomViews
from lci_tf.data.input_report import InputReport
from lci_tf.evaluation.voc import trunk
from lci_tf.evaluation.voc.classification.network import Classifier
from lci_tf.evaluation.voc.classification.training import Scorer, Training, crops_of
from lci_tf.runs import Run, trained

PLANE, BOAT = ("aeroplane", False), ("boat", False)
SETTINGS = {"crop_size": 67, "short_side": 70, "batch_size": 8, "iterations": 12, "learning_rate": 0.01}


@pytest.fixture(scope="module")
def sources(write_voc):
    images = [[PLANE], [BOAT], [PLANE, BOAT], []]
    place = write_voc({"trainval": images * 8, "test": images * 2})
    return labelled.open_labelled("voc/2007", [place], kinds=("multi-label",))


def made(layers="all", **changes):
    """A narrow network of the same weights each time, and its protocol."""
    protocol = voc_protocols.resolve("classification", "krahenbuhl", {**SETTINGS, "layers": layers, **changes})
    images = tf.random.stateless_uniform([16, 67, 67, 3], [0, 0], -1, 1)
    built = trunk.build(trained.random("alexnet", 0.05, seed=0), protocol.crop_size, images, seed=0)
    return Classifier(built, 20, protocol, seed=0), protocol


def trained_on(sources, folder, layers="all", **changes):
    classifier, protocol = made(layers, **changes)
    taken = Training(classifier, sources[0], None, protocol).run(Run(folder), checkpoint_every=5)
    return classifier, taken


def weights(classifier):
    return {v.name: v.numpy() for v in classifier.model.weights}


def test_it_learns_and_the_saved_model_gives_the_same(sources, tmp_path):
    classifier, protocol = made(iterations=60)
    scorer = Scorer(classifier, sources[1], protocol, RandomViews(2, 0), InputReport(sources[1]))
    before = scorer()
    assert Training(classifier, sources[0], None, protocol).run(Run(tmp_path)) == 60
    losses = [record["loss"] for record in Run(tmp_path).metrics()]
    assert losses[-1] < 0.5 * losses[0]
    found = scorer()
    assert found.logits.shape == (8, 2, 20) and found.numbers.tolist() == list(range(8))
    assert np.abs(found.logits - before.logits).max() > 0.1
    total = found.logits.sum(axis=1)
    for name, present in (("aeroplane", [0, 2, 4, 6]), ("boat", [1, 2, 5, 6])):
        number = sources[1].label_names.index(name)
        absent = np.setdiff1d(np.arange(8), present)
        assert total[present, number].mean() > total[absent, number].mean() + 0.5, name
    images = tf.random.stateless_uniform([3, 67, 67, 3], [0, 3], -1, 1)
    outputs = classifier.model(images)
    np.testing.assert_allclose(outputs["logits"], classifier.logits(images), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(outputs["probabilities"], tf.sigmoid(outputs["logits"]), rtol=1e-5)


@pytest.mark.parametrize("layers, changed", [("all", 8), ("fc6-8", 3), ("fc8", 1)])
def test_only_the_layers_that_are_asked_for_are_trained(sources, tmp_path, layers, changed):
    before = weights(made(layers)[0])
    after = weights(trained_on(sources, tmp_path, layers, iterations=2)[0])
    moved = {name.split("/")[0] for name, value in after.items() if np.abs(value - before[name]).max() > 0}
    assert moved == set(["conv1", "conv2", "conv3", "conv4", "conv5", "fc6", "fc7", "fc8"][-changed:])


def test_an_interrupted_training_ends_where_the_other_does(sources, tmp_path):
    whole, _ = trained_on(sources, tmp_path / "whole")
    broken, protocol = made()
    training = Training(broken, sources[0], None, protocol)

    # Ended after the ninth step, of which the last four are lost.
    class Ended(Exception): ...

    def ends(step):
        if step == 9:
            raise Ended

    training._check = ends
    with pytest.raises(Ended):
        training.run(Run(tmp_path / "broken"), checkpoint_every=5)
    resumed, _ = trained_on(sources, tmp_path / "broken")
    for name, value in weights(whole).items():
        np.testing.assert_allclose(weights(resumed)[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
    steps = [[r["step"] for r in Run(tmp_path / name).metrics()] for name in ("whole", "broken")]
    assert steps[0] == steps[1] == [12]


def test_one_step_is_that_of_the_equations(sources):
    """Sum over the classes that count, mean over images; N(0, 0.01) and 0.1 in fc8; twice the rate for biases."""
    classifier, protocol = made("fc8", dropout=0.0, clip=None, weight_decay=0.0)
    training = Training(classifier, sources[0], None, protocol)
    batch = next(iter(training.batches()))
    labels = np.concatenate([batch["label"][:, :-1], np.full([8, 1], -1)], axis=1).astype(np.int8)
    kernel, bias = (v.numpy() for v in classifier.fc8.variables)
    assert kernel.std() == pytest.approx(0.01, rel=0.1) and set(bias) == {np.float32(0.1)}
    features = classifier.trunk.whole(batch["image"]).numpy()
    wrong = (1 / (1 + np.exp(-(features @ kernel + bias))) - labels) * (labels >= 0) / 8
    training._step(batch["image"], tf.constant(labels))
    np.testing.assert_allclose(classifier.fc8.kernel, kernel - 0.01 * features.T @ wrong, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(classifier.fc8.bias, bias - 0.02 * wrong.sum(axis=0), rtol=1e-4, atol=1e-6)


def test_it_stops_when_images_held_out_are_told_no_better_and_takes_the_best(sources, tmp_path):
    classifier, protocol = made(iterations=40, validation=0.25, check_every=4, patience=2, learning_rate=0.0)
    train, validation = labelled.hold_out(sources[0], protocol.validation)
    training = Training(classifier, train, validation, protocol)
    before = weights(classifier)
    assert training.run(Run(tmp_path)) == 4 + 2 * 4  # nothing gets any better after the first check
    assert training.best_iteration == 4
    records = [r for r in Run(tmp_path).metrics() if "validation/average_precision" in r]
    assert [r["step"] for r in records] == [4, 8, 12] and all(0 < r["validation/loss"] < 20 for r in records)
    assert all((value == before[name]).all() for name, value in weights(classifier).items())


def test_a_training_that_diverges_says_so(sources, tmp_path, refusal):
    said = refusal(lambda: trained_on(sources, tmp_path, learning_rate=1e9, iterations=40, clip=None))
    assert "has diverged; try a lower --learning_rate" in said


def test_crops_are_those_of_the_protocol():
    protocol = dataclasses.replace(voc_protocols.CLASSIFICATION["krahenbuhl"], short_side=200)
    crops = crops_of(protocol)
    assert (crops.crop_size, crops.scales, crops.short_side, crops.resize) == (227, (0.5, 2.0), 200, 400)
