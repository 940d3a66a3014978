"""The test of permuted tiles: which images it makes, and that it asks what it should."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from lci_tf import models
from lci_tf.config import presets, probe_protocols
from lci_tf.data.source import PixelArray, StreamSource
from lci_tf.evaluation.probe import ridge_probe, tasks, tiles_task
from lci_tf.evaluation.probe.frozen import FrozenFeatures
from lci_tf.evaluation.results import SINGLE
from lci_tf.runs import Run, checkpoints, trained
from lci_tf.runs.trained import FeatureModel

SETTINGS = presets.resolve("stl10", {"crop_size": 32, "width": 0.05, "transforms": ("tiles",)})
PROTOCOL = probe_protocols.resolve("tiles", {"batch_size": 8}, crop_size=32, resize=32)


@pytest.fixture(scope="module")
def seam_run(tmp_path_factory):
    """A run of an inpainter that was not trained."""
    run = Run(tmp_path_factory.mktemp("runs") / "seams")
    run.begin({**vars(SETTINGS), "dataset": "stl10"})
    inpainter = models.inpainter(32, width=0.05)
    saver = checkpoints.Checkpoints(run, {"inpainter": inpainter})
    saver.restore_latest()
    saver.save(3)
    return run


@pytest.fixture(scope="module")
def seams(seam_run):
    return tiles_task.load(seam_run.path)


def source(count, split="train", seed=0):
    """Images that are bright above and dark below, with a little noise."""
    noise = np.random.default_rng(seed).integers(0, 40, [count, 32, 32, 3])
    pixels = np.linspace(215, 0, 32)[:, None, None] + noise
    return PixelArray(name="slopes", split=split, count=count, pixels=pixels.astype(np.uint8))


def mask_of(seams, images):
    return np.broadcast_to(seams.tiles.mask > 0, images.shape)


def test_a_seam_inpainter_comes_from_its_run(seam_run, seams):
    assert (seams.tiles.tiles, seams.tiles.seam, seams.crops.crop_size, seams.crops.resize) == (4, 2, 32, 48)
    again = tiles_task.load(seam_run.path / "checkpoints" / "step-3")
    assert again.origin == seams.origin and len(seams.origin["digest"]) == 16
    for a, b in zip(again.inpainter.weights, seams.inpainter.weights, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("question", tiles_task.QUESTIONS)
def test_every_image_comes_in_both_kinds(seams, question):
    task = tiles_task.task(question, source(10), source(6, "test", 1), seams, PROTOCOL)
    assert (task.count, task.test_count, task.label_names) == (20, 12, ("not permuted", "permuted"))
    batches = list(task.test())
    assert [batch["image"].shape for batch in batches] == [[8, 1, 32, 32, 3], [4, 1, 32, 32, 3]]
    stored = source(6, "test", 1).pixels
    for batch, pixels in zip(batches, (stored[:4], stored[4:]), strict=True):
        n = len(pixels)
        np.testing.assert_array_equal(batch["label"], [0] * n + [1] * n)
        np.testing.assert_array_equal(batch["index"][:n], batch["index"][n:])
        assert batch["valid"].numpy().all()
        image, other = batch["image"].numpy()[:n, 0], batch["image"].numpy()[n:, 0]
        x = pixels * np.float32(1 / 127.5) - 1
        outside = ~mask_of(seams, x)
        np.testing.assert_array_equal(image[outside], x[outside])
        assert (image == x).all() == (question == "natural or permuted")
        for permuted, whole in zip(other, x, strict=True):
            assert not np.array_equal(permuted[outside[0]], whole[outside[0]])


def test_permuted_images_are_made_of_the_tiles_of_their_image(seams):
    x = tf.constant(np.random.default_rng(0).uniform(-1, 1, [3, 32, 32, 3]), tf.float32)
    rng = np.random.default_rng(1)
    given = rng.uniform(size=[3, 16]).astype(np.float32), rng.normal(size=[3, 32, 32, 3]).astype(np.float32)
    made = {kind: seams.make(kind, x, *given).numpy() for kind in tiles_task.KINDS}
    np.testing.assert_array_equal(made["natural"], x)
    shuffled = seams.tiles.permute(x, seams.tiles.permutation(given[0])).numpy()
    band = mask_of(seams, x)
    np.testing.assert_array_equal(made["permuted"][~band], shuffled[~band])
    np.testing.assert_array_equal(made["unpermuted"][~band], x.numpy()[~band])
    for kind, images in (("unpermuted", x), ("permuted", shuffled)):
        filled = seams.inpainter(np.where(band, given[1], images), training=False).numpy()
        np.testing.assert_allclose(made[kind][band], filled[band], atol=1e-5)


def first_batches(task, step, count=2):
    return [batch["image"].numpy() for batch in itertools.islice(task.train(step), count)]


def test_a_batch_depends_only_on_seed_and_step(seams):
    task, other = (tiles_task.task("natural or permuted", source(10), source(4), seams, PROTOCOL, s) for s in (0, 1))
    first, second = first_batches(task, 0)
    np.testing.assert_array_equal(second, first_batches(task, 1)[0])
    np.testing.assert_array_equal(first, first_batches(task, 0)[0])
    assert not np.array_equal(first, first_batches(other, 0)[0])
    for a, b in zip(task.test(), task.test(), strict=True):
        np.testing.assert_array_equal(a["image"], b["image"])


def test_train_and_test_have_permutations_of_their_own(seams):
    task = tiles_task.task("natural or permuted", source(4), source(4), seams, PROTOCOL)
    (once,), (test,) = task.train_once(), task.test()
    np.testing.assert_array_equal(once["image"][:4], test["image"][:4])
    assert (once["image"][4:].numpy() != test["image"][4:].numpy()).any(axis=(1, 2, 3, 4)).all()


def test_what_sees_the_whole_tells_permuted_from_unpermuted_and_what_does_not_does_not(seams):
    """Rows by their mean tell that images are bright above; the mean of everything does not know of any order."""
    features = FeatureModel(
        lambda x, training: {"rows": tf.reduce_mean(x, 2, keepdims=True), "mean": tf.reduce_mean(x, [1, 2], True)},
        ("rows", "mean"),
        {},
    )
    task = tiles_task.task("unpermuted or permuted", source(60), source(40, "test", 1), seams, PROTOCOL)
    ((found,), _) = ridge_probe.probe(FrozenFeatures(features, PROTOCOL), task)
    assert found["rows"][SINGLE].value > 0.95
    assert found["mean"][SINGLE].value < 0.75


def test_the_picture_shows_all_kinds(seams):
    picture = tiles_task.examples(seams, source(3), PROTOCOL)
    assert picture.dtype == np.uint8 and picture.shape == (22 + 3 * 132 + 4, 3 * 132 + 4, 3)
    np.testing.assert_array_equal(picture[26 : 26 + 128 : 4, 4 : 4 + 128 : 4], source(3).pixels[0])


def test_the_table_has_both_questions():
    accuracies = dict(zip(tiles_task.QUESTIONS, (0.931, 0.7), strict=True))
    layers = {"conv5": {question: {"accuracy": a, "test_images": 8000} for question, a in accuracies.items()}}
    lines = tiles_task.table({"layers": layers}).splitlines()
    assert lines[0] == "Accuracy in percent, on 8,000 test images, half of them permuted"
    assert [line.split() for line in lines[1:]] == [
        ["conv5"], ["natural", "or", "permuted", "93.1"], ["unpermuted", "or", "permuted", "70.0"]
    ]  # fmt: skip


class Stream(StreamSource):
    def stream(self):
        return tf.data.Dataset.range(7).map(lambda i: {"image": tf.cast(tf.fill([32, 32, 3], i), tf.uint8)})


def test_a_stream_without_labels_is_counted():
    assert tasks.with_count(Stream(name="stream", split="train", count=None)).count == 7


def test_other_runs_are_refused(tmp_path, refusal):
    run = Run(tmp_path / "run")
    run.begin({**vars(presets.resolve("stl10", {"transforms": ("rot", "lci")})), "dataset": "stl10"})
    assert refusal(tiles_task.load, run.path).endswith("has no checkpoint yet")
    saver = checkpoints.Checkpoints(run, {"inpainter": models.inpainter(16, width=0.05)})
    saver.restore_latest()
    saver.save(1)
    message = refusal(tiles_task.load, run.path)
    assert message.startswith(f"--seam_run_dir={run.path}: was trained with --transforms=rot,lci; expected")
    assert refusal(tiles_task.load, tmp_path / "nowhere").endswith("no such run or checkpoint")


def test_a_seam_run_has_no_features(seam_run, refusal):
    seam_run.describe({"labels": [], "parameters": {"F": 1, "D": 1}})
    assert refusal(trained.from_run, seam_run.path).endswith("has no C, since it trained F and D alone")
