import lci_tf  # noqa: F401, I001 (before TensorFlow, which it keeps quiet)

import contextlib
import json
import os
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
    yield files.place("ram://bucket")
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


_ONE_AFTER_THE_OTHER = """
import importlib, json, sys
from lci_tf import cli
name, commands = json.load(sys.stdin)
command = importlib.import_module(f"lci_tf.{name}")
for arguments in commands:
    for flag in cli.FLAGS:
        cli.FLAGS[flag].unparse()
    sys.argv = [f"lci_tf/{name}.py", *arguments]
    try:
        cli.run(command.main, command.__doc__)
    except SystemExit as end:
        for stream in (sys.stdout, sys.stderr):
            print(f"exit {end.code}", file=stream)
"""


@pytest.fixture(scope="session")
def run_command():
    """A command as a user runs it, but several times in one process: TensorFlow takes seconds to start.

    `run_command("knn", [flag, …], …)` gives (exit code, stdout, stderr) for each list of flags.
    """
    root = pathlib.Path(__file__).parents[1]

    def run(name, *commands):
        script = [sys.executable, "-c", _ONE_AFTER_THE_OTHER]
        given = json.dumps([name, commands])
        result = subprocess.run(script, cwd=root, capture_output=True, text=True, input=given)
        assert result.returncode == 0, result.stderr
        parts = [stream.split("exit ") for stream in (result.stdout, result.stderr)]
        outputs = [[part if i == 0 else part.partition("\n")[2] for i, part in enumerate(p[:-1])] for p in parts]
        codes = [int(part.partition("\n")[0]) for part in parts[0][1:]]
        assert len(codes) == len(commands), result.stderr
        return list(zip(codes, *outputs, strict=True))

    return run
