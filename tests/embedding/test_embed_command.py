"""The command, by an export and by a server; and killed."""

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

from lci_tf.runs import trained
from lci_tf.serving.export import exporting


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
        local, served, searched, by_server = run_embed(
            [f"--model={export_dir}", f"--out_dir={tmp_path}/local"],
            [f"--server=localhost:{ports['grpc']}", f"--out_dir={tmp_path}/served"],
            [f"--model={export_dir}", f"--out_dir={tmp_path}/local", f"--search={photos}/07.jpg", "--neighbours=3"],
            [f"--server=localhost:{ports['grpc']}", f"--out_dir={tmp_path}/local", f"--search={photos}/07.jpg"],
        )
    assert by_server[0] == 0, by_server[2]  # which has the same network
    for code, output, errors in (local, served):
        assert code == 0 and "Features of 13 images" in output and "1 could not be read" in output, errors
    by_export, by_served = (np.load(tmp_path / name / "embedding.npy") for name in ("local", "served"))
    assert by_export.shape[0] == 13 and not by_export[5].any()
    np.testing.assert_allclose(by_export, by_served, atol=1e-5)
    query, *neighbours, picture = searched[1].splitlines()
    assert query == f"{photos}/07.jpg" and len(neighbours) == 3 and f"{photos}/05.jpg" not in searched[1]
    assert picture.endswith("search.png") and (tmp_path / "local" / "search.png").is_file()


def test_what_another_network_made_is_not_searched(run, export_dir, photos, run_embed, tmp_path):
    model = trained.from_run(run.path)
    for weight in model.classifier.weights:
        weight.assign(weight[..., ::-1])
    exporting.export(model, tmp_path / "other")
    features = f"--out_dir={tmp_path}/features"
    made, refused, resumed, of_old = run_embed(
        [f"--model={export_dir}", features],
        [f"--model={tmp_path}/other", features, f"--search={photos}/07.jpg"],
        [f"--model={tmp_path}/other", features],
        [f"--model={export_dir}", f"--out_dir={tmp_path}/old", f"--search={photos}/07.jpg"],
    )
    assert made[0] == 0, made[2]
    assert refused[0] == 2
    assert f"{features}: its features are another network's; give that one as --model or" in refused[2]
    assert resumed[0] == 2 and not (tmp_path / "features" / "search.png").exists()
    assert "old: has no embedding.npy to search in" in of_old[2]


def test_a_search_among_images_that_are_no_files(export_dir, photos, run_embed, tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "photos.tfrecord")) as writer:
        for path in sorted(photos.iterdir()):
            image = tf.train.Feature(bytes_list=tf.train.BytesList(value=[path.read_bytes()]))
            writer.write(tf.train.Example(features=tf.train.Features(feature={"image": image})).SerializeToString())
    made = ["--dataset=tfrecord", f"--data_dir={tmp_path}", f"--model={export_dir}", f"--out_dir={tmp_path}/out"]
    search = [*made[2:], f"--search={photos}/07.jpg", "--neighbours=3"]
    (first, _, _), (code, output, errors) = run_embed(made, search)
    assert first == code == 0, errors
    query, *nearest, picture = output.splitlines()
    assert query == f"{photos}/07.jpg" and len(nearest) == 3
    assert all(re.fullmatch(r"  [01]\.\d+  image \d+ of tfrecord all", line) for line in nearest)
    assert picture == "Picture    none, because these images are not separate files"


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
        while not any(killed.glob(f".features-{shard:05d}.*")):
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
        "--out_dir: missing; give a folder for the features": [model],
        "--model or --server: give one of them": [out],
        "--features=conv9: ": [model, out, "--features=conv9"],
        "05.jpg: is not a readable image": [model, out, f"--search={photos}/05.jpg"],
        "--model=none: no such folder": ["--model=none", out],
        "--runner_options: needs --runner too": [model, out, "--runner_options=--a=1"],
        "--runner_options: No closing quotation": [model, out, "--runner=DirectRunner", "--runner_options='"],
        "--format=npy: is written to a local folder, not gs://a": [model, "--out_dir=gs://a"],
        "--search: reads a local folder, not gs://a": [model, "--out_dir=gs://a", f"--search={photos}/07.jpg"],
        "--deadline=0": ["--server=localhost:9", "--deadline=0", out],
    }
    nobody_there = ["--server=localhost:9", "--deadline=0.5", out]
    *answers, (code, output, errors) = run_embed(*mistakes.values(), nobody_there)
    told, failed = errors.splitlines()
    assert code == 2 and output == "" and told.endswith("asking again for 0.5 s"), errors
    assert failed.startswith("lci_tf.embed: --server=localhost:9: not there, or too busy;"), errors
    for message, (code, output, errors) in zip(mistakes, answers, strict=True):
        assert code == 2 and output == "" and message in errors and errors.count("\n") == 1, errors
    assert not (tmp_path / "a").exists()
