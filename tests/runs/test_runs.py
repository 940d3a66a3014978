"""The run directory, and above all what is left of it when a process dies."""

import dataclasses
import json
import math
import os
import pathlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tensorflow as tf
from absl import flags

from lci_tf.config import presets
from lci_tf.runs import Run

ROOT = pathlib.Path(__file__).parents[2]
DEFINING = {
    "dataset": "folder",
    "data_dir": ["images"],
    "split": None,
    "seed": 0,
    "border": 2,
    "learning_rate": 3e-4,
    "transforms": ("rot", "lci"),
    "adversarial_cosine": False,
}


@pytest.fixture
def run(tmp_path):
    run = Run(tmp_path / "run")
    run.begin(DEFINING)
    return run


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
    flags.DEFINE_boolean("adversarial_cosine", True, "", flag_values=values)
    flags.DEFINE_boolean("normalise", False, "", flag_values=values)
    assert values(["train", f"--flagfile={path}"]) == ["train"]
    return {name: values[name].value for name in values}


def test_run_flags_start_the_same_run_again(tmp_path):
    odd = ["a b", "it's", 'say "hi"', "x,y", "100%", "#1", "k=v", "grüße", "--seed=3", "$HOME", "\u202fthin\u202f."]
    directories = [str(tmp_path / name) for name in odd]
    asked = {**DEFINING, "data_dir": directories, "init_from": str(tmp_path / "a, b=c"), "normalise": True}
    run = Run(tmp_path / "my run")
    run.begin(asked)
    run.describe({})
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
    Run(path).describe({})
    assert Run(path).begin(dict(DEFINING)) is True
    message = refusal(Run(path).begin, {**DEFINING, "border": 3, "seed": 1, "split": "train"})
    assert message == (
        f"--run_dir={path}: was started with (no --split) --seed=0 --border=2, "
        "not --split=train --seed=1 --border=3; choose another --run_dir, or the same settings"
    )
    assert Run(path).flags()["border"] == "2"
    assert "(no --seed)" in refusal(Run(path).begin, {**DEFINING, "seed": None})
    assert "--border=3" in refusal(lambda: Run(path).begin({**DEFINING, "border": 3}, is_chief=False))
    longer = refusal(Run(path).begin, {**DEFINING, "steps": 70})
    assert longer.endswith(f"or to continue from its weights, another --run_dir and --init_from={path}")


def test_a_file_is_no_run(tmp_path, refusal):
    (tmp_path / "run").write_text("")
    assert refusal(Run(tmp_path / "run").begin, DEFINING) == f"--run_dir={tmp_path}/run: is a file; a run is a folder"


def test_flags_of_a_command_that_failed_before_training_do_not_count(tmp_path):
    path = tmp_path / "run"
    Run(path).begin({**DEFINING, "init_from": "/runs/tpyo"})
    assert Run(path).begin({**DEFINING, "init_from": "/runs/typo"}) is False
    assert Run(path).flags()["init_from"] == "/runs/typo"


def test_a_run_made_before_a_setting_existed_has_its_preset_and_resumes(tmp_path, refusal):
    settings = dataclasses.asdict(presets.resolve("stl10", {"crop_size": 96, "border": 3}))
    before = {name: value for name, value in settings.items() if name not in ("tiles", "seam")}
    run = Run(tmp_path / "run")
    run.begin({**before, "dataset": "stl10"})
    run.describe({})
    assert (run.settings().seam, run.settings().tiles) == (6, 4)
    assert dataclasses.asdict(run.settings()) == settings
    assert "--seam=6, not --seam=8" in refusal(run.begin, {**settings, "seam": 8, "dataset": "stl10"})
    assert Run(run.path).begin({**settings, "dataset": "stl10"}) is True
    Run(tmp_path / "other").begin(before)
    assert "has no --dataset; it was written by another version" in refusal(Run(tmp_path / "other").settings)


def test_a_moved_run_is_resumed_in_its_new_place(tmp_path):
    Run(tmp_path / "old").begin(DEFINING)
    Run(tmp_path / "old").describe({})
    (tmp_path / "old").rename(tmp_path / "new")
    assert Run(tmp_path / "new").begin(DEFINING) is True
    assert read_by_absl(tmp_path / "new" / "run.flags")["run_dir"] == str(tmp_path / "new")
    assert not (tmp_path / "old").exists()


def test_a_bucket_is_refused(refusal):
    assert refusal(Run, "gs://bucket/run") == "--run_dir=gs://bucket/run: must be a local folder, not in a bucket"


def test_a_directory_with_something_else_in_it_is_refused(tmp_path, refusal):
    (tmp_path / "thesis.tex").write_text("Chapter 1")
    message = refusal(Run(tmp_path).begin, DEFINING)
    assert message.startswith(f"--run_dir={tmp_path}: is not a run, as it has thesis.tex but no run.flags")
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
