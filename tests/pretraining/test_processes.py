"""Trainings as users run them: killed and taken up again, on two workers, and refused in one line."""

import json
import os
import pathlib
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
    moments = [
        # In the middle of writing the second checkpoint: some of its files are there, but it does not count yet.
        lambda: any(checkpoints.glob("step-6*")) and '"step-6"' not in (checkpoints / "checkpoint").read_text(),
        # Between two checkpoints.
        lambda: any(json.loads(line)["step"] >= 8 for line in (run_dir / "metrics.jsonl").open() if line[-1] == "\n"),
    ]
    for moment in moments:
        process = train(photos, run_dir, *flags)
        wait_for(lambda moment=moment: (run_dir / "metrics.jsonl").exists() and moment(), process)
        process.send_signal(signal.SIGKILL)
        process.wait()
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
    for word in (*parameters, "images/s", "1,000 steps in about", "GiB", "patch_size"):
        assert word in output
    assert not (tmp_path / "run").exists()


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
    "--probe_every": ["--probe_every=inf"],
    "--init_from: is empty": ["--init_from="],
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
