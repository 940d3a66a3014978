"""The command, by an export and by a server; and killed."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for i in range(13):
        rough = Image.fromarray(rng.integers(0, 256, [4, 4, 3], np.uint8))
        rough.resize((48, 40), Image.Resampling.BICUBIC).save(folder / f"{i:02d}.jpg")
    (folder / "05.jpg").write_text("no image")
    return folder


@pytest.fixture
def run_embed(run_command, photos):
    data = ["--dataset=folder", f"--data_dir={photos}", "--batch_size=4", "--format=npy"]
    return lambda *commands: run_command("embed", *([*data, *command] for command in commands))


def test_an_export_and_a_server_give_the_same(export_dir, stand_in, photos, run_embed, tmp_path):
    with stand_in(features=export_dir) as ports:
        local, served, searched = run_embed(
            [f"--model={export_dir}", f"--out_dir={tmp_path}/local"],
            [f"--server=localhost:{ports['grpc']}", f"--out_dir={tmp_path}/served"],
            [f"--model={export_dir}", f"--out_dir={tmp_path}/local", f"--search={photos}/07.jpg", "--neighbours=3"],
        )
    for code, output, errors in (local, served):
        assert code == 0 and "Features of 13 images" in output and "1 could not be read" in output, errors
    by_export, by_server = (np.load(tmp_path / name / "embedding.npy") for name in ("local", "served"))
    assert by_export.shape[0] == 13 and not by_export[5].any()
    np.testing.assert_allclose(by_export, by_server, atol=1e-5)
    query, *neighbours, picture = searched[1].splitlines()
    assert query == f"{photos}/07.jpg" and len(neighbours) == 3 and f"{photos}/05.jpg" not in searched[1]
    assert picture.endswith("search.png") and (tmp_path / "local" / "search.png").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tfrecord", "npy"])
def test_killed_while_it_writes_a_shard_it_goes_on(export_dir, photos, kind, tmp_path):
    many = tmp_path / "photos"
    many.mkdir()
    for i in range(390):
        os.link(photos / f"{i % 13:02d}.jpg", many / f"{i:03d}.jpg")

    def start(name):
        flags = [f"--data_dir={many}", f"--model={export_dir}", f"--out_dir={tmp_path / name}", f"--format={kind}"]
        flags += ["--dataset=folder", "--batch_size=2", "--shard_size=60"]
        root = pathlib.Path(__file__).parents[2]
        return subprocess.Popen([sys.executable, "-m", "lci_tf.embed", *flags], cwd=root, stderr=subprocess.DEVNULL)

    assert start("whole").wait() == 0
    killed = tmp_path / "killed"
    for shard in (1, 4):
        process = start("killed")
        # A TFRecord grows batch by batch; npy shards are written in one go, when all of their rows are there.
        begun = f".features-{shard:05d}.*" if kind == "tfrecord" else f"features-{shard:05d}.*"
        while not any(killed.glob(begun)):
            assert process.poll() is None
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not (killed / "summary.json").exists()
    assert start("killed").wait() == 0
    assert {path.name for path in killed.iterdir()} == {path.name for path in (tmp_path / "whole").iterdir()}
    rows, names = rows_in(tmp_path / "whole", kind)
    assert len(rows) == 390 and not rows[5::13].any() and rows[6].any()
    assert names == [str(many / f"{i:03d}.jpg") for i in range(390)]
    rows_after, names_after = rows_in(killed, kind)
    assert names_after == names
    np.testing.assert_allclose(rows_after, rows, atol=1e-6)
    assert (killed / "bad_images.txt").read_text() == (tmp_path / "whole" / "bad_images.txt").read_text()


def rows_in(folder, kind):
    if kind == "npy":
        return np.load(folder / "embedding.npy"), (folder / "paths.txt").read_text().splitlines()
    records = tf.data.TFRecordDataset(sorted(str(path) for path in folder.glob("*.tfrecord")))
    examples = [tf.train.Example.FromString(record.numpy()).features.feature for record in records]
    rows = np.array([example["embedding"].float_list.value for example in examples])
    return rows, [example["image/name"].bytes_list.value[0].decode() for example in examples]


def test_mistakes_are_told_in_one_line(export_dir, photos, run_embed, tmp_path):
    model, out = f"--model={export_dir}", f"--out_dir={tmp_path}/a"
    mistakes = {
        "--out_dir: where are the features to go?": [model],
        "--model or --server: give one of them": [out],
        "--features=conv9: ": [model, out, "--features=conv9"],
        "05.jpg: is no image that can be read": [model, out, f"--search={photos}/05.jpg"],
        "--model=none: no such folder": ["--model=none", out],
        "--runner_options: goes with --runner": [model, out, "--runner_options=--a=1"],
        "--runner_options: No closing quotation": [model, out, "--runner=DirectRunner", "--runner_options='"],
        "--format=npy: goes into a folder, and not into gs://a": [model, "--out_dir=gs://a"],
        "--search: looks into a folder, and not into gs://a": [model, "--out_dir=gs://a", f"--search={photos}/07.jpg"],
        "--server=localhost:9: ": ["--server=localhost:9", "--deadline=2", out],
    }
    for message, (code, output, errors) in zip(mistakes, run_embed(*mistakes.values()), strict=True):
        assert code == 2 and output == "" and message in errors and errors.count("\n") == 1, errors
    assert not (tmp_path / "a").exists()
