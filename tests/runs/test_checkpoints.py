"""Checkpoints, and above all what is left of them when a process dies."""

import json
import logging
import math
import pathlib
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from lci_tf.runs import Run
from lci_tf.runs import checkpoints as checkpoint_files
from lci_tf.runs.checkpoints import Checkpoints

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def run(tmp_path):
    run = Run(tmp_path / "run")
    run.begin({"dataset": "folder", "seed": 0})
    return run


def network(units=3):
    return tf.keras.Sequential([tf.keras.layers.Dense(units, input_shape=[4]), tf.keras.layers.BatchNormalization()])


def saved(run, steps, keep=3):
    """Checkpoints of a variable that says which step it is from."""
    variable = tf.Variable(0.0)
    checkpoints = Checkpoints(run, {"weights": variable}, keep=keep)
    checkpoints.restore_latest()
    for step in steps:
        variable.assign(step)
        checkpoints.save(step)
    return checkpoints


def restored(run):
    """The step, and what a fresh process would have in its variable."""
    variable = tf.Variable(-1.0)
    step = Checkpoints(run, {"weights": variable}).restore_latest()
    return step, variable.numpy()


def shorten(path, to):
    path.write_bytes(path.read_bytes()[:to])


def test_the_last_few_are_kept_and_found_by_tensorflow_too(run):
    assert restored(run) == (None, -1.0)
    checkpoints = saved(run, [100, 200, 300, 1200], keep=2)
    assert restored(run) == (1200, 1200.0)
    names = {path.name.split(".")[0] for path in run.checkpoints.iterdir()}
    assert names == {"checkpoint", "step-300", "step-1200"}
    prefix = str(run.checkpoints / "step-1200")
    assert tf.train.latest_checkpoint(run.checkpoints) == prefix == checkpoints.latest
    assert tf.train.load_variable(prefix, "weights/.ATTRIBUTES/VARIABLE_VALUE") == 1200


def test_training_resumes_exactly(run):
    def player():
        tf.keras.utils.set_random_seed(0)
        net = network()
        return net, tf.keras.optimizers.Adam(0.01, beta_1=0.5)

    def train(net, optimizer, steps):
        for step in steps:
            x = tf.random.stateless_normal([8, 4], [step, 0])
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((net(x, training=True) - x[:, :3]) ** 2)
            optimizer.apply_gradients(
                zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables, strict=True)
            )

    whole = player()
    train(*whole, range(6))
    first = player()
    train(*first, range(3))
    Checkpoints(run, dict(zip(("classifier", "optimizer"), first, strict=True))).save(3)
    second = player()  # whose optimiser has made none of its variables yet
    assert Checkpoints(run, dict(zip(("classifier", "optimizer"), second, strict=True))).restore_latest() == 3
    train(*second, range(3, 6))
    for a, b in zip(whole[0].variables, second[0].variables, strict=True):
        np.testing.assert_array_equal(a, b)


def damage_data(prefix):
    shorten(pathlib.Path(f"{prefix}.data-00000-of-00001"), 10)


def damage_index(prefix):
    shorten(pathlib.Path(f"{prefix}.index"), 40)


def flip_a_bit(prefix):
    path = pathlib.Path(f"{prefix}.data-00000-of-00001")
    content = bytearray(path.read_bytes())
    content[-4] ^= 1
    path.write_bytes(content)


def lose_data(prefix):
    pathlib.Path(f"{prefix}.data-00000-of-00001").unlink()


def lose_index(prefix):
    pathlib.Path(f"{prefix}.index").unlink()


@pytest.mark.parametrize("damage", [damage_data, damage_index, flip_a_bit, lose_data, lose_index])
def test_a_damaged_checkpoint_is_passed_over(run, caplog, refusal, damage):
    saved(run, [100, 200])
    damage(run.checkpoints / "step-200")
    with caplog.at_level(logging.WARNING, "lci_tf"):
        assert restored(run) == (100, 100.0)
    assert [record.name for record in caplog.records] == ["lci_tf"]
    assert f"{run.checkpoints}/step-200: is damaged (" in caplog.text
    assert f"{run.checkpoints}/step-200 is damaged" in refusal(
        lambda: checkpoint_files.load_weights(run.path, weights=tf.Module())
    )
    saved(run, [150])  # the run took another way, on which 200 has not been
    assert restored(run) == (150, 150.0)
    assert not list(run.checkpoints.glob("step-200*"))
    for step in (100, 150):
        damage(run.checkpoints / f"step-{step}")
    assert "every checkpoint is damaged" in refusal(restored, run)


@pytest.mark.parametrize("damage", [None, damage_data, damage_index, lose_index])
def test_an_interrupted_write_leaves_no_trace(run, caplog, damage):
    saved(run, [100])
    for path in list(run.checkpoints.glob("step-100.*")):
        shutil.copy(path, run.checkpoints / path.name.replace("100", "200"))
    if damage:
        damage(run.checkpoints / "step-200")
    (run.checkpoints / "step-200_temp").mkdir()
    (run.checkpoints / "step-200_temp" / "part-00000-of-00001.data-00000-of-00001").write_bytes(b"half")
    (run.checkpoints / "step-100.data-00000-of-00001.tempstate123").write_bytes(b"half")
    (run.checkpoints / ".checkpoint.new").write_text("model_ch")
    (run.checkpoints / "notes.txt").write_text("the user's")
    assert restored(run) == (100, 100.0) and not caplog.records
    saved(run, [300])
    assert restored(run) == (300, 300.0)
    left = sorted(path.name for path in run.checkpoints.iterdir())
    files = [f"step-{step}.{kind}" for step in (100, 300) for kind in ("data-00000-of-00001", "index")]
    assert left == ["checkpoint", "notes.txt", *files]


def test_saving_the_same_step_again_does_not_touch_it(run):
    checkpoints = saved(run, [100])
    before = {path: path.stat().st_mtime_ns for path in run.checkpoints.iterdir()}
    checkpoints.save(100)
    saved(run, [100])
    assert {path: path.stat().st_mtime_ns for path in run.checkpoints.iterdir()} == before


def test_saving_before_restoring_does_not_cost_what_is_there(run):
    saved(run, [100])
    with pytest.raises(RuntimeError, match="restore_latest"):
        Checkpoints(run, {"weights": tf.Variable(0.0)}).save(1)
    assert restored(run) == (100, 100.0)


def test_a_checkpoint_that_cannot_be_written_is_reported_in_one_line(run, refusal):
    checkpoints = saved(run, [100])
    (run.checkpoints / "step-200_temp").write_text("in the way")
    assert refusal(checkpoints.save, 200).startswith(f"{run.checkpoints}: the checkpoint cannot be written (")
    assert restored(run) == (100, 100.0)


def test_the_best_survives_resumes(run):
    variable = tf.Variable(0.0)

    def save_best(step, score):
        variable.assign(step)
        return Checkpoints(run, {"weights": variable}).save_best(step, score)  # a new process every time

    scores = {5: math.nan, 10: 0.3, 20: math.nan, 30: 0.5, 40: 0.5, 50: 0.4}
    assert [step for step, score in scores.items() if save_best(step, score)] == [10, 30]
    assert json.loads((run.best / "best.json").read_text()) == {"step": 30, "score": 0.5}
    assert {path.name.split(".")[0] for path in run.best.iterdir()} == {"best", "step-30"}
    best = checkpoint_files.find_checkpoint(run.path, which="best")
    assert tf.train.load_variable(best, "weights/.ATTRIBUTES/VARIABLE_VALUE") == 30
    # Killed after the next one was written and before it was named:
    tf.train.Checkpoint(weights=variable).write(str(run.best / "step-60"))
    assert checkpoint_files.find_checkpoint(run.path, which="best").endswith("step-30")
    assert save_best(70, 0.6)
    assert {path.name.split(".")[0] for path in run.best.iterdir()} == {"best", "step-70"}


def test_scores_by_something_else_do_not_count(run):
    def save_best(step, score, by):
        return Checkpoints(run, {"weights": tf.Variable(0.0)}, scored_by=by).save_best(step, score)

    asked = [(10, 0.5, "cats"), (20, 0.4, "cats"), (30, 0.3, "dogs"), (40, 0.2, "dogs"), (50, 0.35, "dogs")]
    assert [step for step, *of in asked if save_best(step, *of)] == [10, 30, 50]


def test_other_workers_leave_nothing_behind(run, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere").mkdir()
    written = []
    write = tf.train.Checkpoint.write
    monkeypatch.setattr(tf.train.Checkpoint, "write", lambda *a, **k: written.append(write(*a, **k)))
    worker = Checkpoints(run, {"weights": tf.Variable(1.0)}, is_chief=False)
    (run.checkpoints / "checkpoint").write_text('all_model_checkpoint_paths: "step-100"')  # the chief was quicker
    worker.save(100)
    assert worker.save_best(100, 0.5) and not worker.save_best(200, 0.4)
    assert len(written) == 2 and all(str(tmp_path / "elsewhere") in prefix for prefix in written)
    assert not list((tmp_path / "elsewhere").iterdir())
    assert [path.name for path in run.checkpoints.iterdir()] == ["checkpoint"] and not list(run.best.iterdir())


KILLED = """
import sys
from lci_tf.runs.checkpoints import Checkpoints
from lci_tf.runs import Run
import tensorflow as tf
variables = [tf.Variable(tf.zeros([250_000])) for _ in range(40)]
run = Run(sys.argv[1])
run.begin({"seed": 0})
checkpoints = Checkpoints(run, {"weights": variables}, keep=2)
step = checkpoints.restore_latest() or 0
found = {float(v) for variable in variables for v in tf.unique(variable)[0]}
assert found == {float(step)}, (step, found)
run.forget_after(step)
assert [r["step"] for r in run.metrics()] == list(range(1, step + 1))
print(step, flush=True)
while True:
    step += 1
    for variable in variables:
        variable.assign(tf.fill([250_000], float(step)))
    run.log(step, {"loss": 0.5})
    checkpoints.save(step)
    checkpoints.save_best(step, float(step))
"""


@pytest.mark.slow
def test_killed_at_any_moment_it_resumes_from_a_complete_checkpoint(tmp_path):
    reached = []
    for attempt in range(6):
        command = [sys.executable, "-c", KILLED, str(tmp_path / "run")]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            reached.append(int(process.stdout.readline() or -1))
            try:
                process.wait(timeout=0.9 + 0.137 * attempt)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
    assert reached == sorted(reached) and reached[0] == 0 < reached[-1], reached
    best = tf.train.load_checkpoint(checkpoint_files.find_checkpoint(tmp_path / "run", which="best"))
    step = json.loads((tmp_path / "run" / "best" / "best.json").read_text())["step"]
    kept = [best.get_tensor(k) for k in best.get_variable_to_shape_map() if k.startswith("weights")]
    assert kept and all((weights == step).all() for weights in kept)


# Weights of a trained network.


@pytest.fixture
def trained(run):
    net = network()
    Checkpoints(run, {"classifier": net, "optimizer": tf.keras.optimizers.Adam()}).save(100)
    net.layers[0].bias.assign([1.0, 2.0, 3.0])
    checkpoints = Checkpoints(run, {"classifier": net, "optimizer": tf.keras.optimizers.Adam()})
    checkpoints.save_best(50, 0.5)
    return net


def test_weights_are_loaded_from_a_run_or_a_checkpoint(run, trained):
    def bias(*arguments, **options):
        net = network()
        prefix = checkpoint_files.load_weights(*arguments, **options, classifier=net)
        return net.layers[0].bias.numpy().tolist(), prefix

    latest, best = str(run.checkpoints / "step-100"), str(run.best / "step-50")
    assert bias(run.path) == ([0, 0, 0], latest)
    assert bias(run.path, which="best") == ([1, 2, 3], best)
    assert bias(best) == bias(f"{best}.index") == ([1, 2, 3], best)


def test_what_cannot_be_loaded_is_reported_in_one_line(run, trained, tmp_path, refusal):
    def message(path=run.path, which="latest", **objects):
        return refusal(lambda: checkpoint_files.load_weights(path, "--init_from", which, **objects))

    new = Run(tmp_path / "new")
    new.begin({"dataset": "folder", "seed": 1})
    deeper = tf.keras.Sequential([*network().layers, tf.keras.layers.Dense(2)])
    deeper.build([None, 4])
    assert message("nowhere", classifier=network()) == "--init_from=nowhere: no such run or checkpoint"
    assert "is a file, but not a checkpoint; a run is a folder" in message(__file__, classifier=network())
    assert message(tmp_path, classifier=network()) == f"--init_from={tmp_path}: no such run or checkpoint"
    assert message(new.path, classifier=network()) == f"--init_from={new.path}: has no checkpoint yet"
    assert message(new.path, "best", classifier=network()) == f"--init_from={new.path}: has no checkpoint yet"
    assert message(inpainter=network()) == f"--init_from={run.path}: holds no inpainter"
    another = f"--init_from={run.path}: its classifier is another network, without weights of shape"
    assert message(classifier=deeper) == f"{another} [3, 2], [2]"
    assert message(classifier=network(5)) == f"{another} [4, 5], [5]"
    shutil.rmtree(run.best)
    assert "has no best checkpoint" in message(which="best", classifier=network())
    with pytest.raises(ValueError, match="no variables yet"):
        checkpoint_files.load_weights(run.path, classifier=tf.Module())


def test_resuming_with_other_networks_is_reported_in_one_line(run, trained, refusal):
    deeper = tf.keras.Sequential([*network().layers, tf.keras.layers.Dense(2)])
    deeper.build([None, 4])
    assert "has other shapes (" in refusal(Checkpoints(run, {"classifier": network(5)}).restore_latest)
    assert "is of another architecture" in refusal(Checkpoints(run, {"classifier": deeper}).restore_latest)


def test_a_digest_says_which_weights_these_are(run):
    variable = tf.Variable(1.0)
    checkpoint = tf.train.Checkpoint(weights=variable)
    first, second = (checkpoint.write(str(run.path / name)) for name in ("first", "second"))
    assert checkpoint_files.digest(first) == checkpoint_files.digest(second)
    assert len(checkpoint_files.digest(first)) == 16 and int(checkpoint_files.digest(first), 16)
    variable.assign(2.0)
    assert checkpoint_files.digest(checkpoint.write(str(run.path / "third"))) != checkpoint_files.digest(first)
