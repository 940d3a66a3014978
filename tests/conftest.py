import os

if "PYTEST_XDIST_WORKER" in os.environ:  # the tests share the cores: also those of the processes that they start
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")

import lci_tf  # noqa: F401, I001 (before TensorFlow, which it keeps quiet)

import contextlib
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from lci_tf import files
from lci_tf.data.source import IndexedSource
from lci_tf.errors import InputError

# Two replicas for the tests of training on several devices. TensorFlow takes this only before it has run anything.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)


@pytest.fixture(scope="session")
def two_replicas():
    """One for all tests: a second one on the same devices would number its collective operations from the start."""
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


@pytest.fixture
def write_png(tmp_path):
    """Writes a PNG of random pixels below `tmp_path`, under any name, and returns the pixels."""
    rng = np.random.default_rng(0)

    def write(name, height=5, width=7):
        pixels = rng.integers(0, 256, [height, width, 3], np.uint8)
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path, "PNG")
        return pixels

    return write


@pytest.fixture(scope="session")
def write_voc(tmp_path_factory):
    """Writes a VOC folder: by split, an image of 48×40 pixels for each list of (class, is difficult).

    Images with an aeroplane are blue, those with a boat have a white bar.
    """

    def write(splits):
        rng, place, number = np.random.default_rng(0), tmp_path_factory.mktemp("voc"), 0
        for folder in ("ImageSets/Main", "JPEGImages", "Annotations"):
            (place / folder).mkdir(parents=True)
        for split, images in splits.items():
            names = []
            for objects in images:
                number += 1
                names.append(f"{number:06d}")
                pixels = rng.integers(60, 120, [40, 48, 3])
                present = [name for name, _ in objects]
                if "aeroplane" in present:
                    pixels += [0, 0, 130]
                if "boat" in present:
                    pixels[15:25] = 255
                Image.fromarray(pixels.astype(np.uint8)).save(place / "JPEGImages" / f"{names[-1]}.jpg")
                found = "".join(
                    f"<object><name>{name}</name><difficult>{int(difficult)}</difficult></object>"
                    for name, difficult in objects
                )
                (place / "Annotations" / f"{names[-1]}.xml").write_text(f"<annotation>{found}</annotation>")
            (place / "ImageSets" / "Main" / f"{split}.txt").write_text("\n".join(names) + "\n")
        return place

    return write


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """A folder of 40 smooth images, 48×48, without labels; not to be written to."""
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for i in range(40):
        rough = Image.fromarray(rng.integers(0, 256, [5, 5, 3], np.uint8))
        rough.resize((48, 48), Image.Resampling.BICUBIC).save(folder / f"{i}.png")
    return folder


@pytest.fixture
def bucket(monkeypatch):
    """The path of an empty bucket: TensorFlow's file system in memory, under the URL ram://bucket."""
    from etils.epath import gpath, register

    monkeypatch.setattr(gpath, "_URI_PREFIXES", (*gpath._URI_PREFIXES, "ram://"))
    monkeypatch.setattr(gpath, "_URI_SCHEMES", gpath._URI_SCHEMES | {"ram"})
    monkeypatch.setitem(gpath._URI_MAP_ROOT, "ram://", "/ram/")
    monkeypatch.setitem(gpath._PREFIX_TO_BACKEND, "ram", gpath.backend_lib.tf_backend)
    monkeypatch.setitem(register._URI_PREFIXES_TO_CLS, "ram://", gpath.PosixGPath)
    tf.io.gfile.makedirs("ram://bucket")
    yield files.as_path("ram://bucket")
    tf.io.gfile.rmtree("ram://bucket")


@pytest.fixture
def read_all():
    """All of a source: a list of uint8 images, and a list of labels or None."""

    def read(source):
        if isinstance(source, IndexedSource):
            rows = source.rows(tf.range(source.count, dtype=tf.int64))
            rows = [{key: column[i] for key, column in rows.items()} for i in range(source.count)]
        else:
            rows = list(source.stream())
        images = [source.read(row["image"]) for row in rows]
        if source.is_encoded:
            images = [tf.io.decode_image(image) for image in images]
        labels = [row["label"].numpy().tolist() for row in rows] if "label" in rows[0] else None
        return [image.numpy() for image in images], labels

    return read


@pytest.fixture
def refusal():
    """The message with which a call is refused, of which the commands make one line."""

    def message(function, *arguments):
        with pytest.raises(InputError) as caught:
            function(*arguments)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return message


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory):
    """Starts a process that serves exports as TF Serving does: `with stand_in(name=export_dir, …) as ports`.

    The ports are those of "grpc" and "rest". See tests/serving/model_server.py.
    """
    pytest.importorskip("tensorflow_serving", reason="needs pip install lci_tf[serving]")
    script = pathlib.Path(__file__).parent / "serving" / "model_server.py"

    @contextlib.contextmanager
    def serve(**export_dirs):
        models = [f"{name}={export_dir}" for name, export_dir in export_dirs.items()]
        elsewhere = tmp_path_factory.mktemp("elsewhere")
        with (elsewhere / "log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-I", str(script), *models],
                cwd=elsewhere,
                env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        try:
            line = process.stdout.readline()
            assert line, (elsewhere / "log").read_text()
            yield json.loads(line)
        finally:
            process.communicate()  # the end of its input is its end

    return serve


_COMMANDS = """
import importlib, json, logging, os, sys, tempfile
from lci_tf import cli

command, answers = importlib.import_module(f"lci_tf.{sys.argv[1]}"), os.fdopen(os.dup(1), "w")
for line in sys.stdin:
    for flag in cli.FLAGS:
        cli.FLAGS[flag].unparse()
    logging.getLogger("lci_tf").handlers.clear()
    sys.argv, code = [command.__file__, *json.loads(line)], 0
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        os.dup2(output.fileno(), 1), os.dup2(errors.fileno(), 2)
        try:
            cli.run(command.main, command.__doc__)
        except SystemExit as end:
            code = end.code
        said = []
        for stream, file in ((sys.stdout, output), (sys.stderr, errors)):
            stream.flush()
            file.seek(0)
            said.append(file.read().decode())
    print(json.dumps([code, *said]), file=answers, flush=True)
"""


@pytest.fixture(scope="session")
def run_command(tmp_path_factory):
    """A command as a user runs it, but again and again in one process: TensorFlow takes seconds to start.

    `run_command("knn", [flag, …], …)` gives (exit code, stdout, stderr) for each list of flags. There is one process at
    a time, with a home of its own: without data sets that happen to be prepared on this machine.
    """
    root, running = pathlib.Path(__file__).parents[1], {}
    home = {**os.environ, "HOME": str(tmp_path_factory.mktemp("home"))}

    def end():
        for process in running.values():
            process.communicate()  # the end of its input is its end
        running.clear()

    def run(name, *commands):
        if name not in running:
            end()
            command = [sys.executable, "-c", _COMMANDS, name]
            running[name] = subprocess.Popen(
                command, cwd=root, env=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        process, answers = running[name], []
        for flags in commands:
            print(json.dumps([str(flag) for flag in flags]), file=process.stdin, flush=True)
            line = process.stdout.readline()
            assert line, f"lci_tf.{name} {' '.join(map(str, flags))}: the process has ended"
            answers.append(tuple(json.loads(line)))
        return answers

    yield run
    end()
