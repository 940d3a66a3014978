"""Whole trainings of a few steps: presets, resuming, ablations, mistakes."""

import collections
import dataclasses
import itertools
import json

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.summary.summary_iterator import summary_iterator

from lci_tf.config import presets
from lci_tf.data.input_report import InputReport
from lci_tf.errors import InputError
from lci_tf.evaluation.unlabelled import UnlabelledMeasures
from lci_tf.pretraining import callbacks, dry_run, looks, training
from lci_tf.runs import Run


def weights_of(learner):
    players = (learner.classifier, learner.inpainter, learner.discriminator)
    return [w.numpy() for player in players if player is not None for w in player.weights]


@pytest.fixture
def train(tmp_path, source, monkeypatch):
    monkeypatch.setattr(looks, "SAMPLE", 16)

    def run(plan, name="run", strategy=None, **during):
        run = Run(tmp_path / name)
        settings = dataclasses.asdict(plan.settings)
        run.begin({"dataset": "stl10", **settings, "seed": plan.seed, "steps": plan.steps})
        strategy = strategy or tf.distribute.MirroredStrategy(["CPU:0"])
        learner = training.train(run, source, plan, strategy, InputReport(source), training.During(**during))
        return learner, run

    return run


def test_a_run_writes_all_its_files(train, tiny_plan):
    learner, run = train(tiny_plan(steps=3))
    assert learner.classifier_optimizer.iterations.numpy() == 3
    assert (run.path / "checkpoints" / "step-3.index").exists()
    assert {p.name for p in (run.path / "montages").iterdir()} >= {
        f"{name}_{step:07d}.png" for name in ("transformations", "patches", "conv1") for step in (0, 3)
    }
    (record,) = run.metrics()
    assert record["step"] == 3 and {"loss/classifier", "loss/border", "accuracy/warp", "accuracy/identity_untouched",
        "gradient_norm/inpainter", "learning_rate/discriminator"} <= set(record)  # fmt: skip
    tags = collections.defaultdict(set)
    for event in itertools.chain(*map(summary_iterator, map(str, run.tensorboard.iterdir()))):
        tags[event.step] |= {value.tag for value in event.summary.value}
    assert {"transformations", "patches", "lci", "conv1"} <= tags[0]
    assert {"transformations", "patches", "lci", "conv1", "loss/classifier", "accuracy/identity_autoencoded",
        "learning_rate/classifier", "gradient_norm/inpainter"} <= tags[3]  # fmt: skip


def test_patches_and_features_are_looked_at_without_labels(train, tiny_plan):
    _, run = train(tiny_plan(steps=3), probe_every=2, measure=UnlabelledMeasures)
    found = {record["step"]: record for record in run.metrics() if "fill/colour_correlation" in record}
    assert list(found) == [0, 2, 3]
    for record in found.values():
        assert -1 <= record["fill/colour_correlation"] <= 1 and 1 <= record["features/conv5_rank"] <= 16
        assert {"fill/natural_correlation", "fill/discriminator_inpainted", "features/conv1_agreement"} <= set(record)
    assert found[0]["fill/natural_correlation"] == found[3]["fill/natural_correlation"]  # the same images
    assert found[0]["fill/colour_correlation"] != found[3]["fill/colour_correlation"]
    line = looks.line(3, found[3])
    assert line.startswith("step 3: rank of features ") and line.count("%") == 5 + 2
    assert f"correlate by {found[3]['fill/colour_correlation']:.2f} (natural" in line


def test_exports_on_the_way_find_their_checkpoint(train, tiny_plan):
    found = []

    def export(run, step):
        found.append((step, (run.path / "checkpoints" / f"step-{step}.index").exists()))

    plan = tiny_plan(steps=5, transforms=("rot",))
    train(plan, export=export, export_every=2)
    assert found == [(2, True), (4, True), (5, True)]
    found.clear()
    train(plan, export=export, export_every=2)  # as if it had been killed after the last checkpoint
    assert found == [(5, True)]


def test_two_replicas_train_and_stay_equal(train, tiny_plan, two_replicas):
    learner, _ = train(tiny_plan(steps=2), strategy=two_replicas)
    vectors = [layer.u for layer in learner.discriminator.layers if hasattr(layer, "u")]  # of spectral normalisation
    assert len(vectors) > 3
    for variable in [*learner.trainable_variables, *vectors]:
        first, second = learner.distribute_strategy.experimental_local_results(variable)
        np.testing.assert_array_equal(first.numpy(), second.numpy(), err_msg=variable.name)


@pytest.mark.slow
def test_two_replicas_learn_what_one_learns(train, tiny_plan, two_replicas):
    plan = tiny_plan(steps=2, sync_bn=True)
    one, _ = train(plan, "one")
    two, _ = train(plan, "two", strategy=two_replicas)
    for player in ("classifier", "inpainter", "discriminator"):
        for a, b in zip(getattr(one, player).trainable_weights, getattr(two, player).trainable_weights, strict=True):
            # Where a gradient is almost 0, Adam's first steps have the sign of rounding: few, and bounded by the rates.
            assert np.mean(~np.isclose(a, b, atol=1e-5)) < 0.02, a.name


@pytest.mark.slow
def test_jit_compile_does_not_change_a_step(train, tiny_plan):
    plan = tiny_plan(steps=1, noise_scale=0.0)  # of the same seeds, XLA makes other normal noise
    _, plain_run = train(plan, "plain")
    _, compiled_run = train(dataclasses.replace(plan, jit_compile=True), "compiled")
    assert compiled_run.metrics()[-1] == pytest.approx(plain_run.metrics()[-1], rel=1e-3, abs=1e-4)


@pytest.mark.slow
def test_steps_in_one_execution_are_the_same_steps(train, tiny_plan, tmp_path):
    plan = tiny_plan(steps=5)
    one, run_one = train(plan, "one")
    several, run_several = train(dataclasses.replace(plan, steps_per_execution=2), "several")
    assert several.classifier_optimizer.iterations.numpy() == 5
    for a, b in zip(weights_of(one), weights_of(several), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    assert run_several.metrics()[-1]["step"] == run_one.metrics()[-1]["step"] == 5


def test_a_probe_runs_on_schedule_and_the_best_checkpoint_is_kept(train, tiny_plan):
    asked, seen = [], []

    def probe(features, step):
        asked.append(step)
        seen.append(features.get_layer("conv1_bn").moving_variance.numpy())
        assert set(features(tf.zeros([1, 32, 32, 3]))) == {f"conv{i}" for i in range(1, 6)}
        return {"conv1": {"ridge": 0.9 if step == 2 else 0.1, "knn": 0.5}}

    plan = tiny_plan(steps=5, transforms=("rot",))
    learner, run = train(plan, probe=probe, probe_every=2)
    assert asked == [0, 2, 4, 5]
    assert np.all(seen[0] != 1)  # a random C has seen images
    plain, _ = train(plan, "plain")
    for a, b in zip(weights_of(learner), weights_of(plain), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)  # and its training does not know of it
    assert json.loads((run.path / "best" / "best.json").read_text()) == {"step": 2, "score": 0.9}
    assert [r["step"] for r in run.metrics() if "probe/conv1_ridge" in r] == asked


@pytest.mark.parametrize("dataset", [*presets.PRESETS, "synthetic"])
def test_every_preset_trains_at_tiny_width(train, dataset):
    settings = presets.resolve(dataset, {"width": 0.02, "batch_size": 2})
    _, run = train(training.Plan(settings=settings, steps=2))
    assert all(np.isfinite(value) for value in run.metrics()[-1].values())


def test_a_seam_inpainter_is_a_run_like_any_other(train, tiny_plan):
    tiles = {"transforms": ("tiles",), "margin": 0}
    plan = dataclasses.replace(tiny_plan(steps=2, **tiles), checkpoint_every=1)
    learner, run = train(plan)
    assert {p.name for p in run.montages.iterdir()} == {"seams_0000000.png", "seams_0000002.png"}
    assert {"loss/autoencoding", "gradient_norm/inpainter", "learning_rate/discriminator"} <= set(run.metrics()[-1])
    assert run.facts()["parameters"].keys() == {"F", "D"}
    again, _ = train(plan)  # finished: loaded, not trained
    for a, b in zip(weights_of(learner), weights_of(again), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_dry_run_of_a_seam_inpainter(tiny_plan, source, tmp_path, capsys):
    plan = tiny_plan(transforms=("tiles",), margin=0)
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    dry_run.look(tmp_path, source, plan, strategy, InputReport(source), "Settings")
    assert (tmp_path / "seams.png").exists()
    printed = capsys.readouterr().out
    assert printed == (tmp_path / "dry_run.txt").read_text() and printed.startswith("Settings\n")
    assert "parameters of F" in printed and "parameters of C" not in printed and "classes" not in printed


@pytest.mark.slow
def test_a_resnet_trains(train, tiny_plan):
    learner, run = train(tiny_plan(steps=1, backbone="resnet34", transforms=("rot",)))
    assert learner.inpainter is None and np.isfinite(run.metrics()[-1]["loss/classifier"])


def test_a_diverging_run_stops_in_one_line_and_keeps_the_last_good_checkpoint(train, tiny_plan, refusal, tmp_path):
    networks = []

    def probe(features, step):
        networks.append(features)
        return {"conv1": {"ridge": 0.5}}

    def poison(run, step):  # after the checkpoint of that step
        networks[0].get_layer("conv1").kernel.assign_add(tf.fill([11, 11, 3, 8], float("nan")))

    plan = dataclasses.replace(tiny_plan(steps=9), checkpoint_every=1)
    message = refusal(lambda: train(plan, probe=probe, probe_every=9, export=poison, export_every=2))
    assert "gradient_norm/classifier is nan by step 3: the training has diverged" in message
    assert f"the last good checkpoint is {tmp_path}/run/checkpoints/step-2." in message
    reader = tf.train.load_checkpoint(str(tmp_path / "run" / "checkpoints" / "step-2"))
    values = [reader.get_tensor(key) for key in reader.get_variable_to_shape_map() if key.startswith("classifier/")]
    assert len(values) > 20 and all(np.isfinite(value).all() for value in values)
    assert not list((tmp_path / "run" / "checkpoints").glob("step-3*"))


def test_keras_hands_on_losses_without_reading_them(train, tiny_plan, monkeypatch):
    """It would read all of them after every step if a single callback wanted numbers."""
    handed, end = [], callbacks.EndIfAsked.on_train_batch_end

    def note(self, batch, logs=None):
        handed.extend(logs.values())
        end(self, batch, logs)

    monkeypatch.setattr(callbacks.EndIfAsked, "on_train_batch_end", note)
    train(tiny_plan(steps=2, transforms=("rot",)), export=lambda run, step: None, export_every=1)
    assert handed and all(tf.is_tensor(loss) for loss in handed)


def test_too_little_memory_is_reported_in_one_line(train, tiny_plan, refusal):
    def probe(features, step):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor\nand much more")

    message = refusal(lambda: train(tiny_plan(steps=1), probe=probe, probe_every=1))
    assert message.startswith("out of memory (OOM when allocating tensor); try a smaller --batch_size")


def test_a_run_that_diverges_at_once_has_no_checkpoint_to_name(train, tiny_plan, refusal):
    message = refusal(train, tiny_plan(steps=40, learning_rate=1e30, transforms=("rot",)))
    assert "the training has diverged; there is no checkpoint yet" in message


def test_a_run_cannot_be_resumed_with_more_images(train, tiny_plan, source, tmp_path, refusal):
    plan = tiny_plan(steps=2, transforms=("rot",))
    _, run = train(plan)
    more = dataclasses.replace(source, count=65)
    longer = dataclasses.replace(plan, steps=4)
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    message = refusal(training.train, run, more, longer, strategy, InputReport(more))
    assert message.startswith("--data_dir: noise train has 65 images, but had 64 when")


def test_a_run_cannot_be_resumed_with_other_images(train, tiny_plan, source, refusal):
    plan = tiny_plan(steps=2, transforms=("rot",))
    _, run = train(plan)
    longer, strategy = dataclasses.replace(plan, steps=3), tf.distribute.MirroredStrategy(["CPU:0"])
    others = dataclasses.replace(source, pixels=255 - source.pixels)
    message = refusal(training.train, run, others, longer, strategy, InputReport(others))
    assert message.startswith("--data_dir: noise train has other images, by their names and sizes, than when")
    # Runs of earlier versions noted only how many there are.
    facts = run.facts()
    del facts["data"]["contents"]
    (run.path / "run.json").write_text(json.dumps(facts))
    training.train(run, others, longer, strategy, InputReport(others))
    assert (run.path / "checkpoints" / "step-3.index").exists()
    assert run.facts()["data"]["contents"] == others.fingerprint["contents"]


def test_a_frozen_inpainter_comes_from_its_run(train, tiny_plan):
    first, run = train(tiny_plan(steps=2, inpainter_only=True), "inpainter")
    learner, _ = train(tiny_plan(steps=1, inpainter=str(run.path)), "frozen")
    for a, b in zip(first.inpainter.weights, learner.inpainter.weights, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name, other", [("border", 2), ("patch_size", 24), ("noise_scale", 0.5)])
def test_a_frozen_inpainter_fills_in_what_it_was_trained_to(train, tiny_plan, refusal, name, other):
    _, run = train(tiny_plan(steps=1, inpainter_only=True, **{name: other}), "inpainter")
    message = refusal(train, tiny_plan(steps=1, inpainter=str(run.path)), "frozen")
    assert message.startswith(f"--inpainter={run.path}: was trained with --{name}={other}, not ")


def test_weights_to_start_from(train, tiny_plan):
    first, run = train(tiny_plan(steps=2), "first")
    plan = dataclasses.replace(tiny_plan(steps=1, seed=1), init_from=str(run.path))
    second = training.build(plan)
    training.load_given_weights(second, plan)
    for a, b in zip(weights_of(first), weights_of(second), strict=True):
        np.testing.assert_array_equal(a, b)


MISTAKES = {
    "--inpainter_only: needs lci, which is not among --transforms": {
        "inpainter_only": True,
        "transforms": ("rot",),
    },
    "--inpainter: needs lci": {"inpainter": "x", "transforms": ("rot",)},
    "give one": {"inpainter": "x", "inpainter_only": True},
    "--inpainter: is empty; expected a run or a checkpoint": {"inpainter": ""},
}


@pytest.mark.parametrize("message", MISTAKES)
def test_contradicting_plans(tiny_plan, message):
    with pytest.raises(InputError, match=message):
        tiny_plan(**MISTAKES[message])


def test_a_stream_of_unknown_length_needs_a_number_of_steps(source):
    endless = dataclasses.replace(source, count=None)
    with pytest.raises(InputError, match="is not known; give --steps"):
        training.steps_of(presets.resolve("stl10", {}), endless)
