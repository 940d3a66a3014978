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

ROOT = pathlib.Path(__file__).parents[2]
TINY = ["--crop_size=32", "--margin=8", "--resize=48", "--patch_size=16", "--width=0.05", "--batch_size=8"]


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
        lines = (run_dir / "metrics.jsonl").read_text().splitlines(True) if (run_dir / "metrics.jsonl").exists() else ()
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
        process.communicate()
        assert moment()
    code, _, errors = finished(train(photos, run_dir, *flags))
    assert code == 0 and "resuming at step" in errors

    expected, found = contents(tmp_path / "whole"), contents(run_dir)
    assert expected.keys() == found.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, atol=1e-6, rtol=1e-6, err_msg=key)
    records = [(path / "metrics.jsonl").read_text().splitlines() for path in (tmp_path / "whole", run_dir)]
    # At the start and at the end the patches and features are looked at as well.
    assert [json.loads(line)["step"] for line in records[1]] == [0, 2, 4, 6, 8, 10, 12, 14, 14]
    for a, b in zip(*(map(json.loads, lines) for lines in records), strict=True):
        assert a == pytest.approx(b, rel=1e-4, abs=1e-6)

    code, _, errors = finished(train(photos, run_dir, *flags))
    assert code == 0 and "is finished: 14 steps" in errors


WORKER = """
import sys
import numpy as np
from lci_tf import data, runs
from lci_tf.config import presets
from lci_tf.data.input_report import InputReport
from lci_tf.pretraining import training
from lci_tf.training import strategy

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
during = training.During(probe=seen, probe_every=2)
learner = training.train(run, source, plan, devices, InputReport(source), during)
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
    with np.load(tmp_path / "0.npz") as first, np.load(tmp_path / "1.npz") as second:
        assert len(first.files) > 20
        for name in first.files:
            np.testing.assert_array_equal(first[name], second[name])
    # Only the chief wrote, and what it wrote can be loaded.
    assert (tmp_path / "run" / "checkpoints" / "step-4.index").exists()
    steps = [json.loads(line)["step"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert steps == [0, 2, 4, 4]


@pytest.mark.slow
def test_two_workers_started_by_the_command_train_probe_and_resume(photos, labelled, tmp_path):
    run_dir = tmp_path / "run"
    flags = ["--steps=4", "--checkpoint_every=2", "--probe_dataset=folder", f"--probe_data_dir={labelled}"]
    for said in ("probe at step 4", "is finished: 4 steps"):
        workers = [train(photos, run_dir, *flags, TF_CONFIG=task) for task in two_tasks()]
        for code, _, errors in map(finished, workers):
            assert code == 0 and said in errors, errors
    assert (run_dir / "checkpoints" / "step-4.index").exists() and (run_dir / "best" / "best.json").exists()
    assert [json.loads(line)["step"] for line in (run_dir / "metrics.jsonl").read_text().splitlines()] == [0, 4, 4]


@pytest.mark.slow
def test_two_killed_workers_resume_to_the_weights_of_uninterrupted_ones(photos, tmp_path):
    flags = ["--steps=8", "--checkpoint_every=2", "--deterministic"]

    def start_both(name):
        return [train(photos, tmp_path / name, *flags, TF_CONFIG=task) for task in two_tasks()]

    workers = start_both("killed")
    wait_for((tmp_path / "killed" / "checkpoints" / "step-4.index").exists, workers[0])
    for worker in workers:
        worker.send_signal(signal.SIGKILL)
        worker.communicate()
    for name in ("killed", "whole"):
        for code, _, errors in map(finished, start_both(name)):
            assert code == 0, errors
            assert ("resuming at step" in errors) == (name == "killed")
    expected, found = contents(tmp_path / "whole"), contents(tmp_path / "killed")
    assert expected.keys() == found.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, atol=1e-6, rtol=1e-6, err_msg=key)


def python_of(again):
    """The process that scripts/again runs now, if it does."""
    children = pathlib.Path(f"/proc/{again.pid}/task/{again.pid}/children").read_text().split()
    found = [int(pid) for pid in children if b"lci_tf.train" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]
    return found[0] if found else None


@pytest.mark.slow
def test_two_workers_of_which_one_is_told_to_end_and_then_killed_are_started_again_and_finish(photos, tmp_path):
    run_dir = tmp_path / "run"
    flags = ["--dataset=folder", f"--data_dir={photos}", f"--run_dir={run_dir}", *TINY, "--transforms=rot"]
    flags += ["--steps=600", "--checkpoint_every=20", "--log_every=1"]
    inherited, workers = {k: v for k, v in os.environ.items() if not k.startswith("TF_")}, []
    for i, task in enumerate(two_tasks()):
        with (tmp_path / f"{i}.txt").open("w") as said:
            workers.append(subprocess.Popen(
                ["scripts/again", sys.executable, "-m", "lci_tf.train", *flags], cwd=ROOT, stderr=said, stdout=said,
                env={**inherited, "TF_CONFIG": task, "AGAIN_AFTER": "1"},
            ))  # fmt: skip

    def step():
        metrics = run_dir / "metrics.jsonl"
        lines = metrics.read_text().splitlines(True) if metrics.exists() else []
        return max((json.loads(line)["step"] for line in lines if line[-1] == "\n"), default=0)

    for by in (signal.SIGTERM, signal.SIGKILL):
        before = step()
        wait_for(lambda: step() > before + 5, workers[0])  # noqa: B023
        os.kill(python_of(workers[1]), by)
    assert [worker.wait(timeout=500) for worker in workers] == [0, 0]
    assert (run_dir / "checkpoints" / "step-600.index").exists()
    said = [(tmp_path / f"{i}.txt").read_text() for i in range(2)]
    stops = [re.findall(r"lci_tf\.train: ended by SIGTERM at step (\d+) of 600; started again", text) for text in said]
    assert len(stops[0]) == 1 and stops[0] == stops[1]  # both at the same step, which both then have
    assert all(f"resuming at step {stops[0][0]} of 600" in text for text in said)
    assert "scripts/again: ended with code 137" in said[1]
    assert (
        len(re.findall(r"lci_tf\.train: another worker was lost \(.*\); when all are started again, .*", said[0])) == 1
    )
    assert "Traceback" not in said[0] + said[1]


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
    records = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
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
    for word in (*parameters, "images/s", "1,000 steps in about", "patch_size"):
        assert word in output and word in written
    estimated, measured = (float(gib) for gib in re.findall(r"(?:about|memory) +([\d.]+) GiB", written))
    assert 0.7 < estimated / measured < 1.4
    assert not (tmp_path / "run").exists()


def test_a_diverging_training_ends_with_its_message_on_a_separate_line(photos, tmp_path):
    flags = ["--steps=40", "--learning_rate=1e30", "--transforms=rot"]
    code, _, errors = finished(train(photos, tmp_path / "run", *flags))
    assert code == 2
    last = errors.splitlines()[-1]
    assert last.startswith("lci_tf.train: ") and "the training has diverged; there is no checkpoint yet" in last
    (bar,) = [line for line in errors.splitlines() if line.startswith("pre-training:")][-1:]
    assert re.search("<.* (images/s|s/ images)", bar)  # the latter if it is slower than an image a second


MISTAKES = {
    "--run_dir=": ["--steps=2", "--border=4", "--transforms=rot"],  # of the run that the fixture below made
    "--inpainter_only: needs lci": ["--transforms=rot", "--inpainter_only"],
    "--init_from=nowhere: no such run or checkpoint": ["--init_from=nowhere", "--run_dir={new}"],
    "--probe_dataset=folder: has no labels": ["--probe_dataset=folder", "--probe_data_dir={photos}", "--run_dir={new}"],
    "--transforms=no_such_module:Thing": ["--transforms=no_such_module:Thing", "--run_dir={new}"],
    "--probe_dataset: --inpainter_only trains no C, so there are no features to probe": [
        "--inpainter_only",
        "--probe_dataset=synthetic",
    ],
    "--export_every: --inpainter_only trains no C, so there are no features to export": [
        "--inpainter_only",
        "--export_every=5",
    ],
    "--probe_dataset: --transforms=tiles trains no C, so there are no features to probe": [
        "--transforms=tiles",
        "--margin=0",
        "--probe_dataset=synthetic",
    ],
    "--batch_size=7: must be divisible by two": ["--batch_size=7"],
    "--batch_size=48: larger than the data set, as folder all has 40 images": ["--batch_size=48"],
    "--export_every: --transforms=tiles trains no C, so there are no features to export": [
        "--transforms=tiles",
        "--margin=0",
        "--export_every=5",
    ],
    "--probe_data_dir: needs --probe_dataset too": ["--probe_data_dir={photos}"],
    "--probe_every=inf: expected more than 0 epochs": ["--probe_every=inf"],
    "--init_from: is empty": ["--init_from="],
    "--run_dir: is empty; expected a folder": ["--run_dir="],
    "--seed": ["--seed=-1"],
    "--steps": ["--steps=0"],
}


@pytest.fixture(scope="module")
def outcomes(run_command, photos, tmp_path_factory):
    """By message: exit code, output and errors of a training with that mistake, after one without, of the same run."""
    folder = tmp_path_factory.mktemp("mistakes")
    usual = ["--dataset=folder", f"--data_dir={photos}", f"--run_dir={folder / 'run'}", *TINY]
    given = [[flag.format(new=folder / "new", photos=photos) for flag in flags] for flags in MISTAKES.values()]
    right = [*usual, "--steps=1", "--transforms=rot"]
    first, *others = run_command("train", right, *([*usual, *flags] for flags in given))
    assert first[0] == 0, first
    return dict(zip(MISTAKES, others, strict=True))


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_reported_in_one_line(outcomes, message):
    code, output, errors = outcomes[message]
    assert code == 2 and output == ""
    assert errors.count("\n") == 1 and message in errors


@pytest.mark.parametrize(
    "config, message",
    [
        ("rubbish", "TF_CONFIG: expected JSON"),
        ('{"cluster": {"worker": ["localhost:1"]}, "task": {"type": "worker", "index": 7}}', "TF_CONFIG: "),
    ],
)
def test_a_wrong_cluster_is_reported_in_one_line(photos, tmp_path, config, message):
    code, output, errors = finished(train(photos, tmp_path, TF_CONFIG=config))
    assert code == 2 and output == ""
    assert errors.count("\n") == 1 and message in errors
