"""The run directory, and above all what is left of it when a process dies."""

import dataclasses
import json
import logging
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tensorflow as tf
from absl import flags

from lci_tf import checkpoints as checkpoint_files
from lci_tf import presets
from lci_tf.checkpoints import Checkpoints
from lci_tf.runs import Run

ROOT = pathlib.Path(__file__).parents[1]
DEFINING = {
    "dataset": "folder",
    "data_dir": ["images"],
    "split": None,
    "seed": 0,
    "border": 2,
    "learning_rate": 3e-4,
    "transforms": ("rot", "lci"),
    "deep_inpainter": False,
}


@pytest.fixture
def run(tmp_path):
    run = Run(tmp_path / "run")
    run.begin(DEFINING)
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


def test_importing_does_not_import_tensorflow():
    code = "import lci_tf.runs, lci_tf.pretraining.montages, sys; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


# The flags.


def read_by_absl(path):
    values = flags.FlagValues()
    flags.DEFINE_list("data_dir", [], "", flag_values=values)
    flags.DEFINE_list("transforms", [], "", flag_values=values)
    for name in ("dataset", "split", "run_dir", "init_from"):
        flags.DEFINE_string(name, None, "", flag_values=values)
    flags.DEFINE_integer("seed", 7, "", flag_values=values)
    flags.DEFINE_integer("border", 7, "", flag_values=values)
    flags.DEFINE_float("learning_rate", 7, "", flag_values=values)
    flags.DEFINE_boolean("deep_inpainter", True, "", flag_values=values)
    flags.DEFINE_boolean("normalise", False, "", flag_values=values)
    assert values(["train", f"--flagfile={path}"]) == ["train"]
    return {name: values[name].value for name in values}


def test_run_flags_start_the_same_run_again(tmp_path):
    odd = ["a b", "it's", 'say "hi"', "x,y", "100%", "#1", "k=v", "grüße", "--seed=3", "$HOME", "\u202fthin\u202f."]
    directories = [str(tmp_path / name) for name in odd]
    asked = {**DEFINING, "data_dir": directories, "init_from": str(tmp_path / "a, b=c"), "normalise": True}
    run = Run(tmp_path / "my run")
    run.begin(asked)
    found = read_by_absl(run.path / "run.flags")
    assert found == {**asked, "transforms": ["rot", "lci"], "run_dir": str(run.path)}
    first = (run.path / "run.flags").read_text().splitlines()[0]
    assert first == f"# python -m lci_tf.train --flagfile='{run.path}/run.flags'"
    assert Run(run.path).begin({**asked, "data_dir": found["data_dir"], "transforms": found["transforms"]})


def test_paths_are_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/someone")
    Run("run").begin({**DEFINING, "data_dir": ["images/", "~/more"], "init_from": "other/../run0"})
    found = read_by_absl(tmp_path / "run" / "run.flags")
    assert found["data_dir"] == [f"{tmp_path}/images", "/home/someone/more"]
    assert (found["init_from"], found["run_dir"]) == (f"{tmp_path}/run0", f"{tmp_path}/run")


@pytest.mark.parametrize("name", ["two\nlines", "blank at the end ", "\udcff"])
def test_what_a_flagfile_cannot_hold_is_refused(tmp_path, refusal, name):
    message = refusal(Run(tmp_path / "run").begin, {**DEFINING, "init_from": f"/data/{name}"})
    assert message.startswith("--init_from=") and "cannot be written to run.flags" in message
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["set[1]", "a\\b"])
def test_names_below_which_tensorflow_finds_nothing_are_refused(tmp_path, refusal, name):
    assert "TensorFlow finds no checkpoints" in refusal(Run(tmp_path / name).begin, DEFINING)
    checkpoint = tf.train.Checkpoint(x=tf.Variable(1.0))
    (tmp_path / name).mkdir()
    checkpoint.write(str(tmp_path / name / "step-1"))
    with pytest.raises(tf.errors.NotFoundError):  # so the refusal is still needed
        checkpoint.read(str(tmp_path / name / "step-1"))


def test_a_run_is_taken_up_by_the_same_flags_only(tmp_path, refusal):
    path = tmp_path / "run"
    assert Run(path).begin(DEFINING) is False
    assert Run(path).begin(dict(DEFINING)) is True
    message = refusal(Run(path).begin, {**DEFINING, "border": 3, "seed": 1, "split": "train"})
    assert message == (
        f"--run_dir={path}: was started with (no --split) --seed=0 --border=2, "
        "not --split=train --seed=1 --border=3; choose another --run_dir, or the same settings"
    )
    assert Run(path).flags()["border"] == "2"
    assert "(no --seed)" in refusal(Run(path).begin, {**DEFINING, "seed": None})
    assert "--border=3" in refusal(lambda: Run(path).begin({**DEFINING, "border": 3}, is_chief=False))


def test_a_run_from_before_a_setting_has_its_preset_and_goes_on(tmp_path, refusal):
    settings = dataclasses.asdict(presets.resolve("stl10", {"crop_size": 96, "border": 3}))
    before = {name: value for name, value in settings.items() if name not in ("tiles", "seam")}
    run = Run(tmp_path / "run")
    run.begin({**before, "dataset": "stl10"})
    assert (run.settings().seam, run.settings().tiles) == (6, 4)
    assert dataclasses.asdict(run.settings()) == settings
    assert "--seam=6, not --seam=8" in refusal(run.begin, {**settings, "seam": 8, "dataset": "stl10"})
    assert Run(run.path).begin({**settings, "dataset": "stl10"}) is True
    Run(tmp_path / "other").begin(before)
    assert "has no --dataset; it is of another version" in refusal(Run(tmp_path / "other").settings)


def test_a_moved_run_goes_on_where_it_is(tmp_path):
    Run(tmp_path / "old").begin(DEFINING)
    (tmp_path / "old").rename(tmp_path / "new")
    assert Run(tmp_path / "new").begin(DEFINING) is True
    assert read_by_absl(tmp_path / "new" / "run.flags")["run_dir"] == str(tmp_path / "new")
    assert not (tmp_path / "old").exists()


def test_a_directory_with_something_else_in_it_is_refused(tmp_path, refusal):
    (tmp_path / "thesis.tex").write_text("Chapter 1")
    message = refusal(Run(tmp_path).begin, DEFINING)
    assert message.startswith(f"--run_dir={tmp_path}: is not a run, for it has thesis.tex but no run.flags")
    assert os.listdir(tmp_path) == ["thesis.tex"]  # noqa: PTH208


def test_a_start_that_was_killed_does_no_harm(tmp_path):
    (tmp_path / ".run.flags.new").write_text("# python -m lci_tf.train\n--se")
    assert Run(tmp_path).begin(DEFINING) is False
    assert read_by_absl(tmp_path / "run.flags")["seed"] == 0


def test_other_workers_write_nothing(tmp_path):
    assert Run(tmp_path / "run").begin(DEFINING, is_chief=False) is False
    assert not (tmp_path / "run").exists()


def test_two_processes_do_not_train_the_same_run(run):
    code = textwrap.dedent(f"""
        from lci_tf import errors, runs
        try:
            runs.Run({str(run.path)!r}).begin({ {**DEFINING, "data_dir": [os.path.abspath("images")]}!r})
        except errors.InputError as error:
            print(error)
        """)  # noqa: PTH100
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert result.stdout == f"--run_dir={run.path}: is being trained by another process\n", result.stderr


# Facts and metrics.


def test_run_json_has_versions_and_facts(run):
    run.describe({"seed": 0, "parameters": {"classifier": np.int64(5)}, "labels": ["Köln", "b"]})
    facts = json.loads((run.path / "run.json").read_text())
    assert facts == run.facts()
    assert facts["versions"]["tensorflow"] == tf.__version__ and facts["versions"]["numpy"] == np.__version__
    assert facts["parameters"] == {"classifier": 5} and facts["labels"] == ["Köln", "b"]


def test_metrics_are_json_lines(run):
    run.log(20, {"loss": np.float32(0.1), "images": 1280, "probe": tf.constant(0.5)})
    run.log(40, {"loss": math.nan, "probe": math.inf})
    lines = (run.path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[0]) == {"step": 20, "loss": float(np.float32(0.1)), "images": 1280, "probe": 0.5}
    assert json.loads(lines[1]) == {"step": 40, "loss": None, "probe": None}
    second = run.metrics()[1]
    assert second["step"] == 40 and math.isnan(second["loss"])


def test_a_resumed_run_has_the_metrics_of_an_uninterrupted_one(tmp_path):
    whole, torn = Run(tmp_path / "whole"), Run(tmp_path / "torn")
    for run in (whole, torn):
        run.begin(DEFINING)
        for step in range(0, 100, 10):
            run.log(step, {"loss": 1 / (step + 1)})
    with (torn.path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 100, "lo')
    assert len(torn.metrics()) == 10  # read while the last line is being written
    torn.forget_after(50)
    assert [record["step"] for record in torn.metrics()] == [0, 10, 20, 30, 40, 50]
    for step in range(60, 100, 10):
        torn.log(step, {"loss": 1 / (step + 1)})
    assert (torn.path / "metrics.jsonl").read_bytes() == (whole.path / "metrics.jsonl").read_bytes()
    torn.forget_after(0)  # from the beginning, where step 0 will be logged again
    assert torn.metrics() == []


def test_metrics_that_someone_edited_are_told_of(run, refusal):
    (run.path / "metrics.jsonl").write_text('{"step": 1}\nstep 2\n{"step": 3}\n')
    assert refusal(run.metrics).startswith(f"{run.path}/metrics.jsonl: has a line that is not JSON")


# Checkpoints.


def test_the_last_few_are_kept_and_found_by_tensorflow_too(run):
    assert restored(run) == (None, -1.0)
    checkpoints = saved(run, [100, 200, 300, 1200], keep=2)
    assert restored(run) == (1200, 1200.0)
    names = {path.name.split(".")[0] for path in run.checkpoints.iterdir()}
    assert names == {"checkpoint", "step-300", "step-1200"}
    prefix = str(run.checkpoints / "step-1200")
    assert tf.train.latest_checkpoint(run.checkpoints) == prefix == checkpoints.latest
    assert tf.train.load_variable(prefix, "weights/.ATTRIBUTES/VARIABLE_VALUE") == 1200


def test_training_goes_on_exactly(run):
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
def test_a_write_that_was_killed_is_as_if_it_had_not_begun(run, caplog, damage):
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


def test_a_checkpoint_that_cannot_be_written_is_told_in_one_line(run, refusal):
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
from lci_tf.checkpoints import Checkpoints
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
def test_killed_at_any_moment_it_goes_on_from_a_whole_checkpoint(tmp_path):
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
    assert all((best.get_tensor(k) == step).all() for k in best.get_variable_to_shape_map() if k.startswith("weights"))


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


def test_what_cannot_be_loaded_is_told_in_one_line(run, trained, tmp_path, refusal):
    def message(path=run.path, which="latest", **objects):
        return refusal(lambda: checkpoint_files.load_weights(path, "--init_from", which, **objects))

    new = Run(tmp_path / "new")
    new.begin(DEFINING)
    deeper = tf.keras.Sequential([*network().layers, tf.keras.layers.Dense(2)])
    deeper.build([None, 4])
    assert message("nowhere", classifier=network()) == "--init_from=nowhere: no such run or checkpoint"
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


def test_resuming_with_other_networks_is_told_in_one_line(run, trained, refusal):
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
