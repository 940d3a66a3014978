"""Trainings as users run them: killed and taken up again, on two workers, and refused in one line."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

ROOT = pathlib.Path(__file__).parents[2]
TINY = ["--crop_size=32", "--margin=8", "--resize=48", "--patch_size=16", "--width=0.05", "--batch_size=8"]


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for i in range(40):
        rough = Image.fromarray(rng.integers(0, 256, [5, 5, 3], np.uint8))
        rough.resize((48, 48), Image.Resampling.BICUBIC).save(folder / f"{i}.png")
    return folder


@pytest.fixture(scope="module")
def labelled(photos, tmp_path_factory):
    """The same images, in two classes."""
    folder = tmp_path_factory.mktemp("labelled")
    for i, photo in enumerate(sorted(photos.iterdir())):
        (folder / f"class{i % 2}").mkdir(exist_ok=True)
        shutil.copy(photo, folder / f"class{i % 2}")
    return folder


def start(*arguments, **environment):
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("TF_")}
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**inherited, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def train(photos, run_dir, *arguments, **environment):
    arguments = ["--dataset=folder", f"--data_dir={photos}", f"--run_dir={run_dir}", *TINY, *arguments]
    return start("-m", "lci_tf.train", *arguments, **environment)


def finished(process):
    output, errors = process.communicate(timeout=300)
    return process.returncode, output, errors


def contents(run_dir):
    prefix = tf.train.latest_checkpoint(run_dir / "checkpoints")
    reader = tf.train.load_checkpoint(prefix)
    keys = [key for key in reader.get_variable_to_shape_map() if key != "_CHECKPOINTABLE_OBJECT_GRAPH"]
    return {key: reader.get_tensor(key) for key in keys}


def wait_for(condition, process, seconds=200):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.002)


@pytest.mark.slow
def test_killed_at_any_moment_it_ends_with_the_weights_of_an_uninterrupted_run(photos, tmp_path):
    flags = ["--steps=14", "--checkpoint_every=3", "--log_every=2", "--deterministic", "--seed=3"]
    whole = train(photos, tmp_path / "whole", *flags)
    assert finished(whole)[0] == 0

    run_dir = tmp_path / "killed"
    checkpoints = run_dir / "checkpoints"

    def is_writing_a_checkpoint():
        """Some files of a later one are there than any that counts."""
        named = checkpoints / "checkpoint"
        last = int(re.search(r"step-(\d+)", named.read_text())[1]) if named.exists() else 0
        return last > 0 and any(int(re.search(r"\d+", path.name)[0]) > last for path in checkpoints.glob("step-*"))

    def is_between_checkpoints():
        lines = (run_dir / "metrics.jsonl").open() if (run_dir / "metrics.jsonl").exists() else ()
        return any(json.loads(line)["step"] >= 10 for line in lines if line[-1] == "\n")

    for moment in (is_writing_a_checkpoint, is_between_checkpoints):
        process = train(photos, run_dir, *flags)
        while True:
            wait_for(moment, process)
            process.send_signal(signal.SIGSTOP)
            if moment():  # still so, now that it stands still
                break
            process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert moment()
    code, _, errors = finished(train(photos, run_dir, *flags))
    assert code == 0 and "going on from step" in errors

    expected, found = contents(tmp_path / "whole"), contents(run_dir)
    assert expected.keys() == found.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, atol=1e-6, rtol=1e-6, err_msg=key)
    records = [(path / "metrics.jsonl").read_text().splitlines() for path in (tmp_path / "whole", run_dir)]
    assert [json.loads(line)["step"] for line in records[1]] == [2, 4, 6, 8, 10, 12, 14]
    for a, b in zip(*(map(json.loads, lines) for lines in records), strict=True):
        assert a == pytest.approx(b, rel=1e-4, abs=1e-6)

    code, _, errors = finished(train(photos, run_dir, *flags))
    assert code == 0 and "is finished: 14 steps" in errors


WORKER = """
import sys
import numpy as np
from lci_tf import data, presets, runs
from lci_tf.data.input_report import InputReport
from lci_tf.pretraining import strategy, training

photos, run_dir, output = sys.argv[1:]
settings = presets.resolve("folder", dict(crop_size=32, margin=8, resize=48, patch_size=16, width=0.05, batch_size=8))
devices = strategy.choose()
assert devices.num_replicas_in_sync == 2
chief = strategy.is_chief(devices)
run = runs.Run(run_dir)
if chief:
    run.begin({})
source = data.open_source("folder", None, [photos])
plan = training.Plan(settings=settings, steps=4, checkpoint_every=2)
seen = lambda features, step: {"conv1": {"ridge": float(step)}}
learner = training.train(run, source, plan, devices, InputReport(source), seen, 2)
np.savez(output, *[w.numpy() for w in learner.trainable_variables], *[layer.u.numpy() for layer in
         learner.discriminator.layers if hasattr(layer, "u")])
"""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("localhost", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def two_tasks():
    """What TF_CONFIG says to each of two workers."""
    cluster = {"worker": [f"localhost:{port}" for port in free_ports(2)]}
    return [json.dumps({"cluster": cluster, "task": {"type": "worker", "index": i}}) for i in range(2)]


@pytest.mark.slow
def test_two_workers_train_together_and_stay_equal(photos, tmp_path):
    workers = [
        start("-c", WORKER, str(photos), str(tmp_path / "run"), str(tmp_path / f"{i}.npz"), TF_CONFIG=task)
        for i, task in enumerate(two_tasks())
    ]
    for worker in workers:
        code, _, errors = finished(worker)
        assert code == 0, errors
    first, second = (np.load(tmp_path / f"{i}.npz") for i in range(2))
    assert len(first.files) > 20
    for name in first.files:
        np.testing.assert_array_equal(first[name], second[name])
    # Only the chief wrote, and what it wrote can be loaded.
    assert (tmp_path / "run" / "checkpoints" / "step-4.index").exists()
    steps = [json.loads(line)["step"] for line in (tmp_path / "run" / "metrics.jsonl").open()]
    assert steps == [0, 2, 4, 4]


@pytest.mark.slow
def test_two_workers_by_the_command_train_probe_and_go_on(photos, labelled, tmp_path):
    run_dir = tmp_path / "run"
    flags = ["--steps=4", "--checkpoint_every=2", "--probe_dataset=folder", f"--probe_data_dir={labelled}"]
    for said in ("probe at step 4", "is finished: 4 steps"):
        workers = [train(photos, run_dir, *flags, TF_CONFIG=task) for task in two_tasks()]
        for code, _, errors in map(finished, workers):
            assert code == 0 and said in errors, errors
    assert (run_dir / "checkpoints" / "step-4.index").exists() and (run_dir / "best" / "best.json").exists()
    assert [json.loads(line)["step"] for line in (run_dir / "metrics.jsonl").open()] == [0, 4, 4]


@pytest.mark.slow
def test_two_workers_are_killed_and_go_on_to_the_weights_of_two_that_were_not(photos, tmp_path):
    flags = ["--steps=8", "--checkpoint_every=2", "--deterministic"]

    def start_both(name):
        return [train(photos, tmp_path / name, *flags, TF_CONFIG=task) for task in two_tasks()]

    workers = start_both("killed")
    wait_for((tmp_path / "killed" / "checkpoints" / "step-4.index").exists, workers[0])
    for worker in workers:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    for name in ("killed", "whole"):
        for code, _, errors in map(finished, start_both(name)):
            assert code == 0, errors
            assert ("going on from step" in errors) == (name == "killed")
    expected, found = contents(tmp_path / "whole"), contents(tmp_path / "killed")
    assert expected.keys() == found.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, atol=1e-6, rtol=1e-6, err_msg=key)


@pytest.mark.slow
def test_workers_that_are_not_of_one_mind_say_so(photos, tmp_path):
    def both(*each):
        workers = [train(photos, *of_one, TF_CONFIG=task) for of_one, task in zip(each, two_tasks(), strict=True)]
        return [finished(worker) for worker in workers]

    rates = [(tmp_path / "run", "--steps=1", f"--learning_rate={rate}") for rate in ("1e-4", "2e-4")]
    for code, _, errors in both(*rates):
        assert code == 2 and errors.count("\n") == 1
        assert "TF_CONFIG: the workers do not agree on --learning_rate; all must have the same" in errors

    # Folders of their own, of which only the chief's has a checkpoint to go on from.
    folders = [(tmp_path / name, "--steps=1") for name in ("a", "b")]
    assert [code for code, *_ in both(*folders)] == [0, 0]
    for held, (code, _, errors) in zip(("step 1", "no step"), both(*folders), strict=True):
        assert code == 2 and errors.count("\n") == 1
        assert f"the workers do not agree on --run_dir (this one has checkpoints of {held});" in errors


@pytest.mark.slow
def test_the_authors_variant_with_a_probe_and_again_from_its_own_flagfile(photos, labelled, tmp_path):
    run_dir = tmp_path / "run"
    authors = ["--flagfile=flags/authors_code.flags", "--dataset=folder", f"--data_dir={photos}", *TINY]
    watched = ["--probe_dataset=folder", f"--probe_data_dir={labelled}", "--probe_every=0.4"]
    command = ["-m", "lci_tf.train", *authors, *watched, "--steps=4", f"--run_dir={run_dir}"]
    code, output, errors = finished(start(*command))
    assert code == 0, errors
    lines = [line.split() for line in output.splitlines()]
    for before, after in (("random", "learned"), ("conv1", "best")):
        assert any(before in line for line in lines) and any(after in line for line in lines)
    records = [json.loads(line) for line in (run_dir / "metrics.jsonl").open()]
    probed = [record for record in records if "probe/conv5_ridge" in record]
    assert [record["step"] for record in probed] == [0, 2, 4]  # 40 images are 5 steps
    assert all(0 <= record[f"probe/conv{i}_{kind}"] <= 1 for record in probed for i in range(1, 6) for kind in
               ("ridge", "knn"))  # fmt: skip
    best = json.loads((run_dir / "best" / "best.json").read_text())
    assert best["score"] == max(record[f"probe/conv{i}_ridge"] for record in probed[1:] for i in range(1, 6))
    flags = (run_dir / "run.flags").read_text()
    assert "--random_warp_points=true" in flags and "--discriminator_pooling=sum" in flags
    code, _, errors = finished(start("-m", "lci_tf.train", f"--flagfile={run_dir}/run.flags"))
    assert code == 0 and "is finished: 4 steps" in errors


def test_a_dry_run_shows_sizes_and_estimates_and_trains_nothing(photos, tmp_path):
    code, output, errors = finished(train(photos, f"{tmp_path}/run/", "--dry_run", "--steps=1000"))
    assert code == 0, errors
    for name in ("transformations", "patches", "lci", "conv1"):
        assert (tmp_path / "run_dry_run" / f"{name}.png").exists()
    parameters = [f"parameters of {player}" for player in "CFD"]
    written = (tmp_path / "run_dry_run" / "dry_run.txt").read_text()
    for word in (*parameters, "images/s", "1,000 steps in about", "GiB", "patch_size"):
        assert word in output and word in written
    assert not (tmp_path / "run").exists()


def test_a_diverging_training_ends_with_its_message_on_a_line_of_its_own(photos, tmp_path):
    code, _, errors = finished(train(photos, tmp_path / "run", "--steps=40", "--learning_rate=1e30"))
    assert code == 2
    last = errors.splitlines()[-1]
    assert last.startswith("lci_tf.train: ") and "the training has diverged; there is no checkpoint yet" in last
    (bar,) = [line for line in errors.splitlines() if line.startswith("pre-training:")][-1:]
    assert "images/s" in bar and "<" in bar


MISTAKES = {
    "--run_dir=": ["--steps=2", "--border=3"],  # of the run that the fixture below made
    "--inpainter_only: is for the inpainter of lci": ["--transforms=rot", "--inpainter_only"],
    "--init_from=nowhere: no such run or checkpoint": ["--init_from=nowhere", "--run_dir={new}"],
    "--probe_dataset=folder: has no labels": ["--probe_dataset=folder", "--probe_data_dir={photos}", "--run_dir={new}"],
    "--transforms=no_such_module:Thing": ["--transforms=no_such_module:Thing", "--run_dir={new}"],
    "--probe_dataset: there are no features to probe": ["--inpainter_only", "--probe_dataset=synthetic"],
    "--export_every: there are no features to export": ["--inpainter_only", "--export_every=5"],
    "--probe_dataset: there are no features to probe with --transforms=tiles": [
        "--transforms=tiles",
        "--margin=0",
        "--probe_dataset=synthetic",
    ],
    "--batch_size=7: must be divisible by two": ["--batch_size=7"],
    "--export_every: there are no features to export with --transforms=tiles": [
        "--transforms=tiles",
        "--margin=0",
        "--export_every=5",
    ],
    "--probe_data_dir: goes with --probe_dataset": ["--probe_data_dir={photos}"],
    "--probe_every=inf: expected more than 0 epochs": ["--probe_every=inf"],
    "--init_from: is empty": ["--init_from="],
    "--run_dir: is empty; expected a folder": ["--run_dir="],
    "--seed": ["--seed=-1"],
    "TF_CONFIG: expected JSON": ["TF_CONFIG=rubbish"],
    "TF_CONFIG: ": ['TF_CONFIG={{"cluster": {{"worker": ["localhost:1"]}}, "task": {{"type": "worker", "index": 7}}}}'],
    "--steps": ["--steps=0"],
}


@pytest.fixture(scope="module")
def old_run(photos, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("old") / "run"
    code, _, errors = finished(train(photos, run_dir, "--steps=1"))
    assert code == 0, errors
    return run_dir


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_told_in_one_line(photos, old_run, tmp_path, message):
    given = [flag.format(new=tmp_path / "new", photos=photos) for flag in MISTAKES[message]]
    environment = dict(flag.split("=", 1) for flag in given if flag.startswith("TF_"))
    code, output, errors = finished(
        train(photos, old_run, *(flag for flag in given if flag.startswith("--")), **environment)
    )
    assert code == 2 and output == ""
    assert errors.count("\n") == 1 and message in errors
