import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

import numpy as np
import pytest
import tensorflow as tf

from lci_tf.data import pipeline
from lci_tf.data.input_report import InputReport
from lci_tf.data.sets.folder import open_folder
from lci_tf.models.pooling import pool
from lci_tf.runs import trained
from lci_tf.serving.export import exporting, warmup

FEATURES = ("embedding", "conv1", "conv5", "conv3_pooled")


@pytest.fixture(scope="module")
def model(run):
    return trained.from_run(run.path)


@pytest.fixture(scope="module")
def exported(model, tmp_path_factory):
    return exporting.export(model, tmp_path_factory.mktemp("exports"), features=FEATURES)


@pytest.fixture(scope="module")
def signatures(exported):
    return tf.saved_model.load(str(exported)).signatures


def evaluated(model, photos):
    """Features as the evaluation pipeline has them, and the files in its order."""
    source = open_folder(photos, split="all")
    crops = pipeline.Crops(model.crop_size, model.resize)
    (batch,) = pipeline.evaluation_batches(source, crops, 64, InputReport(source))
    assert batch["valid"].numpy().all()
    made = model.classifier(batch["image"][:, 0], training=False)
    embedding = tf.math.l2_normalize(tf.reduce_mean(made["conv5"], [1, 2]), axis=1)
    return source.paths, {
        "embedding": embedding,
        "conv1": made["conv1"],
        "conv5": made["conv5"],
        "conv3_pooled": pool(made["conv3"], 15),
        "transformation": tf.nn.softmax(made["logits"]),
    }


# Where lci_tf cannot be imported, as in TF Serving.
ELSEWHERE = """
import sys

sys.modules["lci_tf"] = None  # importing it fails, wherever it is installed
import numpy as np
import tensorflow as tf

folder, answers, *paths = sys.argv[1:]
signature = tf.saved_model.load(folder).signatures["serving_default"]
contents = [open(path, "rb").read() for path in paths]
np.savez(answers, **{name: value.numpy() for name, value in signature(image_bytes=tf.constant(contents)).items()})
"""


def test_served_features_are_the_evaluated_ones(model, exported, photos, tmp_path):
    paths, expected = evaluated(model, photos)
    answers = tmp_path / "answers.npz"
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    subprocess.run([sys.executable, "-I", "-c", ELSEWHERE, str(exported), str(answers), *paths], cwd=tmp_path,
                   env=environment, check=True)  # fmt: skip
    with np.load(answers) as found:
        assert set(found) == set(expected)
        for name, values in expected.items():
            np.testing.assert_allclose(found[name], values, atol=1e-5, rtol=1e-5, err_msg=name)


@pytest.mark.slow
def test_that_test_passes_wherever_the_clone_lies(tmp_path):
    """In a folder with the package's name and a space, whose environment lies within, as scripts/venv makes it."""
    root, clone = pathlib.Path(__file__).parents[3], tmp_path / "lci_tf of mine"
    for folder in ("lci_tf", "tests"):
        shutil.copytree(root / folder, clone / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(root / "pyproject.toml", clone)
    packages = pathlib.Path(sysconfig.get_path("purelib"))
    python = clone / ".venv" / "bin" / "python"
    within = clone / ".venv" / packages.relative_to(sys.prefix)
    for link, target in ((python, sys._base_executable), (within, packages)):
        link.parent.mkdir(parents=True)
        link.symlink_to(target)
    (clone / ".venv" / "pyvenv.cfg").write_text(f"home = {pathlib.Path(sys._base_executable).parent}\n")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    test = "tests/serving/export/test_exporting.py::test_served_features_are_the_evaluated_ones"
    result = subprocess.run([python, "-m", "pytest", "-q", test], cwd=clone, env=environment, capture_output=True,
                            text=True)  # fmt: skip
    assert result.returncode == 0, result.stdout
    assert "1 passed" in result.stdout


def test_pixels_give_what_their_png_gives(signatures):
    pixels = np.random.default_rng(1).integers(0, 256, [3, 50, 70, 3], np.uint8)
    of_bytes = signatures["serving_default"](tf.stack([tf.io.encode_png(image) for image in pixels]))
    of_pixels = signatures["images"](tf.constant(pixels))
    assert set(of_bytes) == set(of_pixels) == {*FEATURES, "transformation"}
    for name, values in of_bytes.items():
        np.testing.assert_allclose(of_pixels[name], values, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(of_bytes["embedding"], axis=1), 1, atol=1e-5)


def png(claims=None):
    content = tf.io.encode_png(np.zeros([40, 40, 3], np.uint8)).numpy()
    if claims:  # the header says so, and its checksum
        import zlib

        header = content[12:16] + claims.to_bytes(4, "big") * 2 + content[24:29]
        content = content[:12] + header + zlib.crc32(header).to_bytes(4, "big") + content[33:]
    return content


@pytest.mark.parametrize(
    "bad", [b"", b"no image", png()[:60], png(claims=30_000)], ids=["empty", "text", "cut", "huge"]
)
def test_a_bad_image_fails_the_request_by_its_position(signatures, bad):
    serve = signatures["serving_default"]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"at position \[1 3\]"):
        serve(tf.constant([png(), bad, png(), bad]))
    assert serve(tf.constant([png()]))["embedding"].shape[0] == 1  # and the next is served


def test_zeros_for_bad_images(model, tmp_path):
    folder = exporting.export(model, tmp_path, on_bad_image="zeros")
    signatures = tf.saved_model.load(str(folder)).signatures
    outputs = signatures["serving_default"](tf.constant([b"bad", png()]))
    assert outputs["valid"].numpy().tolist() == [False, True]
    assert not outputs["embedding"][0].numpy().any() and outputs["embedding"][1].numpy().any()
    assert signatures["images"](tf.zeros([2, 9, 9, 3], tf.uint8))["valid"].numpy().tolist() == [True, True]


def test_an_export_that_does_not_agree_is_not_kept(model, run, tmp_path, monkeypatch):
    other, serve = trained.random_like(run.path), exporting.ServedFeatures
    monkeypatch.setattr(exporting, "ServedFeatures", lambda model, *arguments: serve(other, *arguments))
    with pytest.raises(RuntimeError, match="does not give what the network gives"):
        exporting.export(model, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_lies_beside_the_graph(exported, run):
    assert (exported / "assets" / "transformations.txt").read_text().split() == [
        "identity",
        "rot90",
        "rot180",
        "rot270",
    ]
    assert (exported / "assets" / "run.flags").read_text() == (run.path / "run.flags").read_text()
    card = (exported / "README.md").read_text()
    for fact in ("stl10, unlabelled, 1,234 images", "7 of 20 steps", "seed 3", "32×32", "| conv5 | 50.0 % |",
                 "`embedding` float32 [?, 24]", "`image_bytes` string [?]", "curl"):  # fmt: skip
        assert fact in card, fact


def test_warm_up_requests_are_what_the_model_takes(exported, signatures):
    logs = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    records = list(tf.data.TFRecordDataset(str(exported / warmup.FILE)).as_numpy_iterator())
    counts = []
    for record in records:
        request = logs.PredictionLog.FromString(record).predict_log.request
        signature = signatures[request.model_spec.signature_name]
        outputs = signature(**{name: tf.constant(tf.make_ndarray(value)) for name, value in request.inputs.items()})
        counts.append(outputs["embedding"].shape[0])
    assert counts == [1, 4]


def test_half_of_the_size(model, exported, signatures, tmp_path):
    folder = exporting.export(model, tmp_path, half=True)

    def size(version):
        return sum(path.stat().st_size for path in (version / "variables").iterdir())

    assert size(folder) < 0.6 * size(exported)
    sample = tf.constant([png()])
    whole = signatures["serving_default"](sample)
    half = tf.saved_model.load(str(folder)).signatures["serving_default"](sample)
    assert 0 < np.abs(whole["embedding"] - half["embedding"]).max() < 1e-2
    assert half["embedding"].dtype == tf.float32
    assert "MB of weights instead of" in exporting.what_half_costs(model, folder)


def test_c_as_a_keras_file(model, tmp_path, refusal):
    path = exporting.export_keras(model, tmp_path)
    crops = tf.random.stateless_uniform([2, 32, 32, 3], [0, 0], -1.0, 1.0)
    np.testing.assert_allclose(
        tf.keras.models.load_model(path, compile=False)(crops)["logits"], model.classifier(crops)["logits"], atol=1e-6
    )
    assert [p.name for p in tmp_path.iterdir()] == ["classifier.keras"]
    assert "exists already" in refusal(exporting.export_keras, model, tmp_path)


def test_an_unknown_feature(model, tmp_path, refusal):
    message = refusal(exporting.export, model, tmp_path, None, ("conv9",))
    assert message.startswith("--features=conv9: unknown; there are embedding, conv1, ")
    assert list(tmp_path.iterdir()) == []
