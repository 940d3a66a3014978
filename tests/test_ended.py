"""Commands as processes that are told to end, or killed; started again, they come to what they would have come to."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from lci_tf import models
from lci_tf.config import presets
from lci_tf.runs import Run, checkpoints, trained
from lci_tf.serving.export import exporting

pytestmark = pytest.mark.slow
ROOT = pathlib.Path(__file__).parents[1]
TOLD = r"lci_tf\.{}: ended by SIGTERM at (?:step|image) ([\d,]+).*; started again, it resumes from there"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """`run`: with a checkpoint of a C that has learned nothing; `images`: two classes, to train on and to test with."""
    place, rng = tmp_path_factory.mktemp("place"), np.random.default_rng(0)
    run = Run(place / "run")
    settings = presets.resolve("stl10", {"crop_size": 32, "width": 0.05})
    run.begin({**vars(settings), "dataset": "stl10"})
    run.describe({"labels": ["identity", "rot90"], "parameters": {"C": 1}, "steps": 20, "seed": 3,
                  "data": {"name": "stl10", "split": "unlabelled", "images": 1234}})  # fmt: skip
    saver = checkpoints.Checkpoints(run, {"classifier": models.classifier("alexnet_small", 2, 32, width=0.05)})
    saver.restore_latest()
    saver.save(7)
    exporting.export(trained.from_run(run.path), place / "export")
    for split, count in (("train", 20), ("test", 8)):
        for name, level in (("dark", 80), ("light", 170)):
            (place / "images" / split / name).mkdir(parents=True)
            for i in range(count):
                pixels = rng.normal(level, 60, [40, 44, 3]).clip(0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(place / "images" / split / name / f"{i}.png")
    return place


def start(command, *flags, **environment):
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("TF_")}
    return subprocess.Popen(
        [sys.executable, "-m", f"lci_tf.{command}", *map(str, flags)],
        cwd=ROOT,
        env={**inherited, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process):
    output, errors = process.communicate(timeout=300)
    return process.returncode, output, errors


def wait_for(condition, process, seconds=280):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.005)


def catches_sigterm(process):
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"^SigCgt:\s*(\w+)", status, re.MULTILINE)[1], 16) >> (signal.SIGTERM - 1) & 1


def told_to_end(process, command):
    """The step at which it ended."""
    told = time.monotonic()
    process.send_signal(signal.SIGTERM)
    code, _, errors = finished(process)
    assert code == 75 and time.monotonic() - told < 20, errors  # 10 where nothing else runs
    lines = [line for line in re.split("[\r\n]", errors) if "lci_tf" in line and "lci_tf: " not in line]
    assert len(lines) == 1 and "Traceback" not in errors, errors
    return int(re.fullmatch(TOLD.format(command), lines[0])[1].replace(",", ""))


def contents(prefix):
    reader = tf.train.load_checkpoint(str(prefix))
    keys = [key for key in reader.get_variable_to_shape_map() if key != "_CHECKPOINTABLE_OBJECT_GRAPH"]
    return {key: reader.get_tensor(key) for key in keys}


def assert_same_checkpoints(a, b):
    expected, found = (contents(tf.train.latest_checkpoint(folder / "checkpoints")) for folder in (a, b))
    assert expected.keys() == found.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, atol=1e-6, rtol=1e-5, err_msg=key)


def train_flags(place, run_dir, *more):
    tiny = ["--crop_size=32", "--margin=8", "--resize=48", "--patch_size=16", "--width=0.05", "--batch_size=8"]
    data = ["--dataset=folder", f"--data_dir={place / 'images' / 'train'}"]
    return [*data, *tiny, f"--run_dir={run_dir}", "--log_every=1", "--deterministic", *more]


def records_of(run_dir):
    return [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]


def test_a_training_told_to_end_between_checkpoints_goes_on_to_the_same(place, tmp_path):
    steps = ["--steps=20", "--checkpoint_every=1000"]
    assert finished(start("train", *train_flags(place, tmp_path / "whole", *steps)))[0] == 0
    run_dir = tmp_path / "ended"
    metrics, last = run_dir / "metrics.jsonl", 0
    for lines in (2, 8):
        process = start("train", *train_flags(place, run_dir, *steps))
        wait_for(lambda: metrics.exists() and metrics.read_text().count("\n") > lines, process)  # noqa: B023
        step = told_to_end(process, "train")
        assert last < step < 20 and (run_dir / "checkpoints" / f"step-{step}.index").exists()
        last = step
    code, _, errors = finished(start("train", *train_flags(place, run_dir, *steps)))
    assert code == 0 and f"resuming at step {last} of 20" in errors
    assert_same_checkpoints(tmp_path / "whole", run_dir)
    for a, b in zip(records_of(tmp_path / "whole"), records_of(run_dir), strict=True):
        assert a == pytest.approx(b, rel=1e-3, abs=1e-6)


def test_a_training_told_to_end_while_it_looks_at_the_features_looks_when_it_goes_on(place, tmp_path):
    """At the last step too, when it is finished but for that."""
    run_dir = tmp_path / "run"
    labelled = ["--probe_dataset=folder", f"--probe_data_dir={place / 'images'}", "--probe_every=0.8"]
    flags = train_flags(place, run_dir, "--steps=8", "--checkpoint_every=1000", *labelled)
    for step in (4, 8):
        process = start("train", *flags)
        metrics = run_dir / "metrics.jsonl"
        wait_for(lambda: metrics.exists() and any(r["step"] == step - 1 for r in records_of(run_dir)), process)  # noqa: B023
        time.sleep(0.4)  # so that it looks, which takes seconds where nothing is compiled yet
        told_to_end(process, "train")
    code, _, errors = finished(start("train", *flags))
    assert code == 0, errors
    assert [r["step"] for r in records_of(run_dir) if "probe/conv1_knn" in r] == [0, 4, 8]
    assert finished(start("train", *flags))[0] == 0 and not (run_dir / ".look").exists()


def transfer_flags(place, folder, *more):
    data = [f"--run_dir={place / 'run'}", "--dataset=folder", f"--data_dir={place / 'images'}"]
    return [*data, f"--out_dir={folder}", *more]


def results_of(folder):
    results = json.loads((folder / "results.json").read_text())
    return {name: value for name, value in results.items() if name in ("layers", "single_crop", "networks")}


def last_step(folder):
    named = folder / "checkpoints" / "checkpoint"
    return int(re.search(r"step-(\d+)", named.read_text())[1]) if named.exists() else 0


@pytest.mark.parametrize("command, more", [
    ("probe", ["--epochs=80", "--layers=conv1,conv5", "--batch_size=8"]),
    ("finetune", ["--epochs=80", "--patience=80", "--batch_size=8"]),
])  # fmt: skip
def test_a_transfer_that_is_killed_and_told_to_end_comes_to_the_same(place, tmp_path, command, more):
    whole, ended = tmp_path / "whole", tmp_path / "ended"
    more = [*more, "--checkpoint_every=7"]
    assert finished(start(command, *transfer_flags(place, whole, *more)))[0] == 0

    process = start(command, *transfer_flags(place, ended, *more))
    wait_for(lambda: last_step(ended) > 0, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()

    kept = last_step(ended)
    process = start(command, *transfer_flags(place, ended, *more))
    wait_for(lambda: last_step(ended) > kept, process)
    step = told_to_end(process, command)
    assert kept < step and (ended / "checkpoints" / f"step-{step}.index").exists()

    code, _, errors = finished(start(command, *transfer_flags(place, ended, *more)))
    assert code == 0, errors
    assert results_of(ended) == results_of(whole)
    if command == "probe":
        assert_same_checkpoints(whole, ended)
    else:
        models_of = [tf.keras.models.load_model(folder / "model.keras") for folder in (whole, ended)]
        for a, b in zip(*(model.weights for model in models_of), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5, rtol=1e-4)
        a, b = (records_of(folder) for folder in (whole, ended))
        assert [record["step"] for record in a] == [record["step"] for record in b]


def test_a_search_for_neighbours_that_is_killed_and_told_to_end_leaves_nothing_behind(place, tmp_path):
    folder = tmp_path / "knn"
    flags = transfer_flags(place, folder, "--k=1,3", "--train_test", "--batch_size=1")
    process = start("knn", *flags)
    wait_for((folder / "protocol.json").exists, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    process = start("knn", *flags)
    wait_for(lambda: catches_sigterm(process), process)
    time.sleep(3)  # while it starts
    process.send_signal(signal.SIGTERM)
    code, _, errors = finished(process)
    assert code == 75 and "lci_tf.knn: ended by SIGTERM; started again" in errors and "Traceback" not in errors
    assert [path.name for path in folder.iterdir()] == ["protocol.json"]
    code, _, errors = finished(start("knn", *flags))
    assert code == 0, errors
    assert finished(start("knn", *transfer_flags(place, tmp_path / "whole", *flags[4:])))[0] == 0
    assert results_of(folder) == results_of(tmp_path / "whole")
    assert {p.name for p in folder.iterdir()} == {"protocol.json", "results.json", "accuracy.png"}


def test_an_embedding_told_to_end_within_its_only_shard_goes_on(place, tmp_path):
    many, images = tmp_path / "many", sorted((place / "images").rglob("*.png"))
    many.mkdir()
    for i in range(1_000):
        os.link(images[i % len(images)], many / f"{i:04d}.png")

    def embed(folder):
        data = ["--dataset=folder", f"--data_dir={many}", f"--model={place / 'export'}", "--batch_size=1"]
        return start("embed", *data, f"--out_dir={folder}", "--format=npy")

    assert finished(embed(tmp_path / "whole"))[0] == 0
    ended, last = tmp_path / "ended", 0
    begun = ended / ".features-00000.begun"
    for _ in range(2):
        kept = begun.stat().st_size if begun.exists() else 0  # which the process copies before it embeds any image
        process = embed(ended)
        wait_for(lambda: any(p.stat().st_size > kept + 30_000 for p in ended.glob(".*.new")), process)  # noqa: B023
        image = told_to_end(process, "embed")
        assert last < image < 1_000 and begun.exists()
        last = image
    code, output, errors = finished(embed(ended))
    assert code == 0 and f"resuming at image {last}" in errors and "Features of 1,000 images" in output
    whole, found = (np.load(folder / "embedding.npy") for folder in (tmp_path / "whole", ended))
    np.testing.assert_allclose(found, whole, atol=1e-5)
    assert (ended / "paths.txt").read_text() == (tmp_path / "whole" / "paths.txt").read_text()
    assert {p.name for p in ended.iterdir()} == {p.name for p in (tmp_path / "whole").iterdir()}
