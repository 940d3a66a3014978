"""With data sets that tensorflow-datasets really downloads, from a server here."""

import functools
import hashlib
import http.server
import importlib
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time
import zipfile

import numpy as np
import pytest
import tensorflow as tf

from lci_tf import data
from lci_tf.data import open_source
from lci_tf.data.sets import tfds_fetching

tfds = pytest.importorskip("tensorflow_datasets")

ROOT = pathlib.Path(__file__).parents[3]
BUILDER = """
import tensorflow_datasets as tfds


class Builder(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = {{"image": tfds.features.Image(), "label": tfds.features.ClassLabel(names=["dark", "light"])}}
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def _split_generators(self, dl_manager):
        return {{"train": self._generate_examples(dl_manager.download_and_extract("{url}"))}}

    def _generate_examples(self, place):
        for path in sorted(place.glob("*.png")):
            yield path.name, {{"image": path, "label": int(path.stem) % 2}}
"""


@pytest.fixture
def declare(tmp_path, monkeypatch):
    """Makes a data set of tfds whose archive is at this URL; gives its name."""
    declared = []

    def make(url, archive=b""):
        name = f"photos_{tmp_path.name.replace('-', '_')}_{len(declared)}"
        declared.append(name)
        package = tmp_path / "builders" / name
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / f"{name}_dataset_builder.py").write_text(BUILDER.format(url=url))
        digest = hashlib.sha256(archive).hexdigest()
        (package / "checksums.tsv").write_text(f"{url}\t{len(archive)}\t{digest}\tphotos.zip\n")
        monkeypatch.syspath_prepend(str(package.parent))
        importlib.import_module(f"{name}.{name}_dataset_builder")
        return name

    yield make
    for module in [m for m in sys.modules if m.partition(".")[0] in declared]:
        del sys.modules[module]


@pytest.fixture
def server(tmp_path):
    """A folder, its URL, and the paths that were asked for."""
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *of_request):
            asked.append(self.path)

    folder = tmp_path / "served"
    folder.mkdir()
    handler = functools.partial(Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{running.server_port}", asked
        running.shutdown()


@pytest.fixture
def silent():
    """The port of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.fixture
def photos(server):
    """An archive of four images at the server; its URL and contents."""
    folder, url, _ = server
    with zipfile.ZipFile(folder / "photos.zip", "w") as archive:
        for i in range(4):
            archive.writestr(f"{i}.png", tf.io.encode_png(np.full([4, 6, 3], 60 * i, np.uint8)).numpy())
    return f"{url}/photos.zip", (folder / "photos.zip").read_bytes()


def told(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "lci_tf"]


def test_what_is_not_there_is_fetched_once(declare, server, photos, tmp_path, read_all, caplog, capfd):
    name, place = declare(*photos), tmp_path / "sets"
    place.mkdir()
    caplog.set_level("INFO", "lci_tf")
    tfds.enable_progress_bar()  # which other tests turn off, for all of the process
    data.fetch(f"tfds:{name}", [place])
    (line,) = told(caplog)
    assert line == f"downloading {name}, 0.0 MB from 127.0.0.1, to {place}; --nodownload forbids it"
    out, err = capfd.readouterr()
    assert out == "" and "Dl Size" in err  # tfds's progress, and nothing among the results of a command
    source = open_source(f"tfds:{name}", None, [place])
    images, labels = read_all(source)
    assert sorted(zip([image.max() for image in images], labels, strict=True)) == [(0, 0), (60, 1), (120, 0), (180, 1)]
    asked = len(server[2])
    assert asked
    data.fetch(f"tfds:{name}", [place])
    assert len(server[2]) == asked and told(caplog) == [line]


def test_an_archive_that_was_put_there_needs_no_network(declare, silent, tmp_path, caplog):
    archive_place, place = tmp_path / "made", tmp_path / "sets"
    archive_place.mkdir()
    with zipfile.ZipFile(archive_place / "photos.zip", "w") as archive:
        archive.writestr("0.png", tf.io.encode_png(np.zeros([4, 6, 3], np.uint8)).numpy())
    contents = (archive_place / "photos.zip").read_bytes()
    name = declare(f"http://127.0.0.1:{silent}/photos.zip", contents)
    manual = place / "downloads" / "manual"
    manual.mkdir(parents=True)
    (manual / "photos.zip").write_bytes(contents)
    caplog.set_level("INFO", "lci_tf")
    data.fetch(f"tfds:{name}", [place])
    assert told(caplog) == [f"preparing {name} in {place}; --nodownload forbids it"]
    assert open_source(f"tfds:{name}", None, [place]).count == 1


def test_a_server_that_never_answers_is_not_waited_for(declare, silent, tmp_path, refusal):
    name = declare(f"http://127.0.0.1:{silent}/photos.zip")
    start = time.monotonic()
    message = refusal(data.fetch, f"tfds:{name}", [tmp_path])
    assert time.monotonic() - start < 9
    assert message == (
        f"--dataset=tfds:{name}: not prepared in {tmp_path}, and cannot be downloaded from 127.0.0.1 (no answer within "
        f"4 seconds); put its archive into {tmp_path}/downloads/manual, or have network access, and try again"
    )


@pytest.mark.parametrize("dataset", ["stl10", "celeb_a", "voc/2007", "voc/2012", "places365_small"])
def test_the_papers_sets_without_a_network(silent, tmp_path, refusal, monkeypatch, dataset):
    monkeypatch.setenv("HOME", str(tmp_path))
    for scheme in ("http", "https"):  # where the way out ends
        monkeypatch.setenv(f"{scheme}_proxy", f"http://127.0.0.1:{silent}")
    monkeypatch.delenv("no_proxy", raising=False)
    start = time.monotonic()
    message = refusal(data.fetch, dataset)
    assert time.monotonic() - start < 9
    place = tmp_path / "tensorflow_datasets"
    assert message.startswith(f"--dataset={dataset}: not prepared in {place}, and cannot be downloaded from ")
    assert f"into {place}/downloads/manual, or have network access" in message
    if dataset == "stl10":
        assert "from ai.stanford.edu (" in message and "put stl10_binary.tar.gz into" in message


def train(tmp_path, *flags, script=("-m", "lci_tf.train"), **environment):
    """`python -m lci_tf.train` on a machine without data sets."""
    command = [sys.executable, *script, *flags, f"--run_dir={tmp_path / 'run'}"]
    fresh = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(command, cwd=tmp_path, env=fresh, capture_output=True, text=True)


def test_the_papers_training_on_a_machine_without_a_network(silent, tmp_path):
    forbidden = train(tmp_path, "--dataset=stl10", "--nodownload")
    missing = train(tmp_path, "--dataset=stl10", http_proxy=f"http://127.0.0.1:{silent}", no_proxy="")
    place = tmp_path / "tensorflow_datasets"
    for result, why in ((forbidden, ""), (missing, ", and cannot be downloaded from ai.stanford.edu (")):
        assert result.returncode == 2 and result.stdout == "" and result.stderr.count("\n") == 1, result.stderr
        assert f"lci_tf.train: --dataset=stl10: not prepared in {place}{why}" in result.stderr
        assert f"put stl10_binary.tar.gz into {place}/downloads/manual" in result.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_training_fetches_its_images(declare, photos, tmp_path):
    name = declare(*photos)
    (tmp_path / "start.py").write_text(
        f"import {name}.{name}_dataset_builder\nfrom lci_tf import cli, train\ncli.run(train.main, train.__doc__)"
    )
    tiny = ["--transforms=rot", "--steps=1", "--width=0.02", "--crop_size=32", "--batch_size=4"]
    with_builder = os.pathsep.join([str(ROOT), str(tmp_path / "builders")])
    result = train(tmp_path, f"--dataset=tfds:{name}", *tiny, script=["start.py"], PYTHONPATH=with_builder)
    assert result.returncode == 0, result.stderr
    first = result.stderr.splitlines()[0]
    assert (
        first.startswith(f"lci_tf: downloading {name}, ")
        and f"to {tmp_path}/tensorflow_datasets; --nodownload" in first
    )
    assert (tmp_path / "run" / "checkpoints" / "step-1.index").exists()


def test_what_could_not_be_fetched_is_tried_again(silent, tmp_path, refusal, monkeypatch):
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{silent}")
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{silent}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setattr(tfds_fetching, "_PATIENCE", 0.2)
    for _ in range(2):
        message = refusal(data.fetch, "stl10", [tmp_path])
        assert ", and cannot be downloaded from ai.stanford.edu (" in message
    assert "--dataset=stl10: not prepared in" in refusal(open_source, "stl10", None, [tmp_path])


def test_a_refusal_is_told_at_once(declare, server, tmp_path, refusal):
    _, url, asked = server
    message = refusal(data.fetch, f"tfds:{declare(f'{url}/gone.zip')}", [tmp_path])
    assert "cannot be downloaded from 127.0.0.1 (it answers 404)" in message and len(asked) <= 2


def test_what_needs_an_account_is_not_looked_for(silent, tmp_path, refusal):
    message = refusal(data.fetch, "imagenet2012", [tmp_path])
    assert message == (
        f"--dataset=imagenet2012: not prepared in {tmp_path}, and cannot be downloaded automatically; put "
        f"ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar into {tmp_path}/downloads/manual and try again"
    )


def test_a_damaged_archive_is_reported_in_one_line(declare, photos, tmp_path, refusal):
    url, _ = photos
    message = refusal(data.fetch, f"tfds:{declare(url, b'other contents')}", [tmp_path])
    assert ", as tensorflow-datasets failed (NonMatchingChecksumError: " in message


@pytest.mark.parametrize("dataset", ["folder", "tfrecord", "stl10"])
def test_fetch_leaves_existing_folders_alone(tmp_path, write_png, dataset):
    write_png("train/airplane/1.png")
    (tmp_path / "all.tfrecord").touch()
    before = sorted(tmp_path.rglob("*"))
    data.fetch(dataset, [tmp_path])
    data.fetch(dataset, [tmp_path / "misspelt"])  # is told when it is opened
    assert sorted(tmp_path.rglob("*")) == before
