"""A run that is trained as far as it needs to be: not at all. Its export, and servers of it."""

import dataclasses
import json
import pathlib
import shutil
import socket
import subprocess
import time
import urllib.request

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from lci_tf import models
from lci_tf.config import presets
from lci_tf.runs import Run, checkpoints, trained
from lci_tf.serving.export import exporting

ROOT = pathlib.Path(__file__).parents[2]

LABELS = ["identity", "rot90", "rot180", "rot270"]


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    run = Run(tmp_path_factory.mktemp("runs") / "one")
    settings = presets.resolve("stl10", {"crop_size": 32, "width": 0.1, "transforms": ("rot",)})
    run.begin({**vars(settings), "dataset": "stl10"})
    run.describe({"labels": LABELS, "parameters": {"C": 1}, "steps": 20, "seed": 3,
                  "data": {"name": "stl10", "split": "unlabelled", "images": 1234}})  # fmt: skip
    run.log(7, {"probe/conv1_ridge": 0.25, "probe/conv5_ridge": 0.5})
    tf.keras.utils.set_random_seed(5)
    classifier = models.classifier("alexnet_small", len(LABELS), 32, width=0.1)
    # As after a training: batch normalisation that has seen something, and scales that are not all one.
    for i, weight in enumerate(classifier.weights):
        if "_bn" in weight.name:
            weight.assign(tf.abs(weight + tf.random.stateless_normal(weight.shape, [1, i], stddev=0.2)) + 0.1)
    saver = checkpoints.Checkpoints(run, {"classifier": classifier})
    saver.restore_latest()
    saver.save(7)
    return run


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """Files of many sizes and formats."""
    folder, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    kinds = ["JPEG RGB", "PNG RGB", "BMP RGB", "GIF P", "JPEG L", "PNG RGBA", "JPEG CMYK"]
    sizes = [(32, 32), (48, 48), (20, 70), (131, 64), (300, 200), (33, 47), (64, 500)]
    for i, ((height, width), format) in enumerate(zip(sizes, kinds, strict=True)):
        kind, mode = format.split()
        for rotated in range(2):
            rough = Image.fromarray(rng.integers(0, 256, [6, 6, 3], np.uint8))
            pixels = np.asarray(rough.resize((width, height), Image.Resampling.BICUBIC))
            image = Image.fromarray(np.rot90(pixels) if rotated else pixels)
            image.convert(mode).save(folder / f"{i}_{rotated}.{kind.lower()}", kind)
    return folder


@pytest.fixture(scope="session")
def export_dir(run, tmp_path_factory):
    export_dir = tmp_path_factory.mktemp("exports")
    exporting.export(trained.from_run(run.path), export_dir)
    return export_dir


class Lengths(tf.Module):
    """Gives the length of its input as features, and zeros for what is shorter than five bytes."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="image_bytes")])
    def of_bytes(self, image_bytes):
        length = tf.cast(tf.strings.length(image_bytes), tf.float32)
        valid = length >= 5
        return {"embedding": tf.where(valid, length, 0)[:, tf.newaxis], "valid": valid}


class Doubles(tf.Module):
    """No export of lci_tf."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def double(self, x):
        return {"y": 2 * x}


@dataclasses.dataclass
class Served:
    """A server of the export, whose model is called `features`."""

    grpc: str
    rest: str

    def get(self, path):
        with urllib.request.urlopen(self.rest + path) as answer:
            return json.loads(answer.read())

    def post(self, path, body):
        with urllib.request.urlopen(self.rest + path, json.dumps(body).encode()) as answer:
            return json.loads(answer.read())


@pytest.fixture(scope="session")
def stood_in(stand_in, export_dir, tmp_path_factory):
    """Also serves `lengths` and `doubles`."""
    toys = tmp_path_factory.mktemp("toys")
    for name, signature in (("lengths", Lengths().of_bytes), ("doubles", Doubles().double)):
        tf.saved_model.save(tf.Module(), str(toys / name / "3"), signatures=signature)
    with stand_in(features=export_dir, lengths=toys / "lengths", doubles=toys / "doubles") as ports:
        yield Served(f"localhost:{ports['grpc']}", f"http://localhost:{ports['rest']}")


@pytest.fixture
def trouble(stood_in):
    """Tells the stand-in what trouble to make."""
    yield lambda **asked: stood_in.post("/stand_in", asked)
    stood_in.post("/stand_in", {})


@pytest.fixture(scope="session")
def model_server(export_dir):
    """The real one, started by scripts/serve."""
    ports = [free_port(), free_port()]
    command = ["scripts/serve", str(export_dir), f"--port={ports[0]}", f"--rest_port={ports[1]}"]
    served = Served(f"localhost:{ports[0]}", f"http://localhost:{ports[1]}")
    with subprocess.Popen(command, cwd=ROOT) as process:
        for _ in range(600):
            time.sleep(0.1)
            try:
                served.get("/v1/models/features/metadata")
                break
            except OSError:
                assert process.poll() is None
        yield served
        process.terminate()


def free_port():
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


@pytest.fixture(params=["stood_in", *(["model_server"] if shutil.which("tensorflow_model_server") else [])])
def server(request):
    """The stand-in, and where there is one, the real server too."""
    return request.getfixturevalue(request.param)
