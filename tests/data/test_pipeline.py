import dataclasses
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from lci_tf.data import pipeline
from lci_tf.data.input_report import InputReport, allowed_bad_images
from lci_tf.data.sets import folder
from lci_tf.data.source import PixelArray, StreamSource
from lci_tf.errors import InputError
from lci_tf.imaging import images

CROPS = pipeline.Crops(crop_size=32, resize=40)


def numbered(count, size=40):
    """An indexed source whose image i is of the colour i."""
    pixels = np.zeros([count, size, size, 3], np.uint8)
    pixels[:] = np.arange(count)[:, None, None, None]
    return PixelArray(name="numbered", split="all", count=count, pixels=pixels)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NumberedStream(StreamSource):
    """The same as a stream of PNGs."""

    total: int

    def stream(self):
        def png(i):
            return {"image": tf.io.encode_png(tf.fill([40, 40, 3], tf.cast(i, tf.uint8)))}

        return tf.data.Dataset.range(self.total).map(png)


def stream(count, known=True):
    return NumberedStream(name="numbered", split="all", count=count if known else None, total=count)


SOURCES = {"indexed": numbered(50), "stream": stream(50), "stream of unknown length": stream(50, known=False)}


def training(source, batch_size=8, **options):
    options = {"seed": 0, "report": InputReport(source), **options}
    return pipeline.training_batches(source, CROPS, batch_size, **options).as_numpy_iterator()


def colours(batch):
    """Which images stand in a batch of a numbered source, read from their pixels."""
    return np.round((batch["image"][:, 0, 0, 0] + 1) * 127.5).astype(int)


@pytest.mark.parametrize("kind", SOURCES)
def test_the_seed_of_the_whole_program_changes_nothing(kind):
    orders = []
    for seed in (0, 5):
        tf.random.set_seed(seed)
        batches = training(SOURCES[kind], batch_size=10)
        orders.append(np.concatenate([next(batches)["index"] for _ in range(10)]))
    np.testing.assert_array_equal(*orders)


@pytest.mark.parametrize("kind", SOURCES)
def test_every_image_comes_exactly_once_per_epoch(kind):
    batches = training(SOURCES[kind], batch_size=10)
    for _ in range(3):
        epoch = np.concatenate([colours(next(batches)) for _ in range(5)])
        np.testing.assert_array_equal(np.sort(epoch), np.arange(50))


@pytest.mark.parametrize("kind", SOURCES)
def test_epochs_follow_each_other_without_a_gap(kind):
    batches = training(SOURCES[kind], batch_size=8)
    seen = np.concatenate([colours(next(batches)) for _ in range(25)])
    for epoch in np.split(seen, 4):
        np.testing.assert_array_equal(np.sort(epoch), np.arange(50))


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("workers", [2, 4])
def test_the_workers_together_load_what_one_loads_alone(kind, workers):
    source = SOURCES[kind]
    alone = training(source)
    together = [training(source, worker=pipeline.Worker(i, workers)) for i in range(workers)]
    for _ in range(15):
        parts = [next(t)["image"] for t in together]
        np.testing.assert_array_equal(np.concatenate(parts), next(alone)["image"])


@pytest.mark.parametrize("kind", SOURCES)
def test_a_run_that_starts_later_sees_what_it_would_have_seen(kind):
    whole = training(SOURCES[kind])
    for _ in range(9):
        next(whole)
    resumed = training(SOURCES[kind], start_step=9)
    for _ in range(10):
        np.testing.assert_array_equal(next(resumed)["image"], next(whole)["image"])


def test_the_seed_decides():
    first = [next(training(numbered(50), seed=seed))["image"] for seed in (0, 0, 1)]
    np.testing.assert_array_equal(first[0], first[1])
    assert (first[0] != first[2]).any()


def test_crops_and_mirror_images_are_those_that_were_drawn():
    """Against a transcription with NumPy of the draws."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, [20, 40, 40, 3], np.uint8)
    source = PixelArray(name="noise", split="all", count=20, pixels=pixels)
    batches = training(source, batch_size=6, seed=5)
    for step in range(4):
        batch = next(batches)
        views = pipeline.draws.uniform(5, pipeline.draws.VIEW, tf.constant(step, tf.int64), 6, (1, 3)).numpy()[:, 0]
        for image, index, (v, h, mirrored) in zip(batch["image"], batch["index"], views, strict=True):
            top, left = int(v * 9), int(h * 9)
            expected = pixels[index, top : top + 32, left : left + 32]
            expected = expected[:, ::-1] if mirrored >= 0.5 else expected
            np.testing.assert_allclose(image, expected / 127.5 - 1, atol=1e-6)


def test_a_batch_larger_than_a_chunk_is_whole():
    batches = training(numbered(250), batch_size=200)
    seen = [next(batches) for _ in range(5)]
    assert [batch["image"].shape for batch in seen] == [(200, 32, 32, 3)] * 5
    for epoch in np.split(np.concatenate([colours(batch) for batch in seen]), 4):
        np.testing.assert_array_equal(np.sort(epoch), np.arange(250))


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("views, count", [("centre", 1), ("five", 5), ("ten", 10)])
def test_evaluation_is_one_pass_in_order(kind, views, count):
    source = SOURCES[kind]
    batches = list(pipeline.evaluation_batches(source, CROPS, 16, InputReport(source), views).as_numpy_iterator())
    assert [b["image"].shape for b in batches] == [(n, count, 32, 32, 3) for n in (16, 16, 16, 2)]
    np.testing.assert_array_equal(np.concatenate([b["index"] for b in batches]), np.arange(50))
    assert all(b["valid"].all() for b in batches)


def test_evaluation_over_workers_sees_each_image_once():
    source = numbered(200)
    seen = [
        batch["index"]
        for worker in range(3)
        for batch in pipeline.evaluation_batches(
            source, CROPS, 16, InputReport(source), worker=pipeline.Worker(worker, 3)
        ).as_numpy_iterator()
    ]
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.arange(200))


# --- files -----------------------------------------------------------------------------------------------------------


def write_images(place, count, size=(40, 40), suffix=".jpg", rng=None):
    rng = rng or np.random.default_rng(0)
    place.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        image = Image.fromarray(rng.integers(0, 256, [4, 4, 3], np.uint8)).resize(size, Image.Resampling.BICUBIC)
        image.save(place / f"{i:04d}{suffix}")
    return place


def test_a_mixture_of_formats_and_sizes_is_preprocessed_as_one_by_one(tmp_path):
    write_images(tmp_path, 4)
    write_images(tmp_path, 4, size=(200, 131), suffix=".png")
    write_images(tmp_path, 4, size=(33, 70), suffix=".bmp")
    write_images(tmp_path, 4, size=(400, 300), suffix=".gif")
    write_images(tmp_path / "large", 4, size=(410, 330))
    source = folder.open_folder(tmp_path, "all")
    batches = pipeline.evaluation_batches(source, CROPS, 7, InputReport(source), "five").as_numpy_iterator()
    together = np.concatenate([b["image"] for b in batches])
    for path, crops in zip(source.paths, together, strict=True):
        alone = images.preprocess(tf.io.read_file(path), tf.constant(images.VIEWS["five"]), 32, 40)
        np.testing.assert_allclose(crops, alone, atol=1e-6, err_msg=path)


def test_labels_stay_with_their_images(tmp_path):
    for i, name in enumerate(["cats", "dogs", "elks"]):
        place = tmp_path / name
        place.mkdir()
        for j in range(5):
            Image.new("RGB", (40, 40), (80 * i, 0, 0)).save(place / f"{j}.png")
    batch = next(training(folder.open_folder(tmp_path, "all"), batch_size=12))
    np.testing.assert_array_equal(batch["label"], np.round(colours(batch) / 80).astype(int))


def test_the_replacement_of_an_unreadable_image_has_its_own_label(tmp_path):
    for i, name in enumerate(["cats", "dogs"]):
        (tmp_path / name).mkdir()
        for j in range(10):
            Image.new("RGB", (40, 40), (100 * i, 0, 0)).save(tmp_path / name / f"{j}.png")
    for name in ("cats/3.png", "dogs/7.png"):
        (tmp_path / name).write_text("no image")
    source = folder.open_folder(tmp_path, "all")
    batches = training(source, batch_size=10, report=InputReport(source, max_bad_images=2))
    for _ in range(8):
        batch = next(batches)
        np.testing.assert_array_equal(batch["label"], np.round(colours(batch) / 100).astype(int))


@pytest.fixture
def with_bad_images(tmp_path):
    """60 images, of which numbers 7 and 30 cannot be read."""
    write_images(tmp_path, 60)
    (tmp_path / "0007.jpg").write_bytes((tmp_path / "0007.jpg").read_bytes()[:-100])
    (tmp_path / "0030.jpg").write_text("no image")
    return folder.open_folder(tmp_path, "all")


def test_unreadable_images_are_reported_and_replaced_by_others(with_bad_images, caplog):
    source = with_bad_images
    report = InputReport(source, max_bad_images=0.05)
    batches = training(source, batch_size=12, report=report)
    for _ in range(10):
        batch = next(batches)
        assert batch["image"].shape == (12, 32, 32, 3)
        assert all(image.std() > 0 for image in batch["image"])
        assert not set(batch["index"]) & {7, 30}
    assert sorted(report.unreadable) == [7, 30]
    assert "0007.jpg is a JPEG file that is truncated or damaged" in caplog.text
    assert "0030.jpg is not an image" in caplog.text
    assert caplog.text.count("0007.jpg") == 1


def test_an_unreadable_image_does_not_move_the_others(with_bad_images, tmp_path):
    good = write_images(tmp_path / "good", 60)
    source = folder.open_folder(good, "all")
    with_bad = training(with_bad_images, batch_size=12, report=InputReport(with_bad_images, 0.05))
    without = training(source, batch_size=12)
    for _ in range(10):
        some, all_ = next(with_bad), next(without)
        readable = ~np.isin(all_["index"], [7, 30])
        np.testing.assert_array_equal(some["image"][readable], all_["image"][readable])


def test_too_many_unreadable_images_stop_the_run_with_one_line(with_bad_images):
    report = InputReport(with_bad_images, max_bad_images=0.01)
    message = r"of 60 images cannot be read, more than --max_bad_images=0\.01 allows"
    with pytest.raises(InputError, match=message), report.one_line_errors():
        for _, _ in zip(training(with_bad_images, batch_size=12, report=report), range(10), strict=False):
            pass


def test_a_number_of_unreadable_images_can_be_allowed(with_bad_images):
    report = InputReport(with_bad_images, max_bad_images=2)
    for _, _ in zip(training(with_bad_images, batch_size=12, report=report), range(10), strict=False):
        pass
    assert len(report.unreadable) == 2


def test_in_evaluation_an_unreadable_image_keeps_its_row(with_bad_images):
    report = InputReport(with_bad_images, max_bad_images=0.05)
    batches = list(pipeline.evaluation_batches(with_bad_images, CROPS, 25, report).as_numpy_iterator())
    valid = np.concatenate([b["valid"] for b in batches])
    np.testing.assert_array_equal(np.flatnonzero(~valid), [7, 30])
    assert (np.concatenate([b["image"] for b in batches])[[7, 30]] == images.scale(tf.zeros([])).numpy()).all()


def test_a_file_that_vanished_is_named(tmp_path):
    source = folder.open_folder(write_images(tmp_path, 10), "all")
    (tmp_path / "0003.jpg").unlink()
    report = InputReport(source, max_bad_images=1)
    list(pipeline.evaluation_batches(source, CROPS, 4, report))
    assert "0003.jpg cannot be read: No such file" in report.unreadable[3]


def test_a_folder_of_nothing_readable_stops(tmp_path):
    for i in range(20):
        (tmp_path / f"{i}.jpg").write_text("no image")
    source = folder.open_folder(tmp_path, "all")
    report = InputReport(source, max_bad_images=100)
    with pytest.raises(InputError, match="none of 10 images in a row can be read"), report.one_line_errors():
        next(training(source, batch_size=10, report=report))


def test_enlarging_is_said_once(tmp_path, caplog):
    write_images(tmp_path, 12, size=(20, 25))
    source = folder.open_folder(tmp_path, "all")
    for _, _ in zip(training(source, batch_size=4), range(6), strict=False):
        pass
    assert caplog.text.count("smaller than the crop and are enlarged") == 1


def test_a_resize_below_the_crop_is_refused():
    with pytest.raises(InputError, match="resize 20 is smaller than crop_size 32"):
        pipeline.Crops(crop_size=32, resize=20)


def test_a_batch_that_the_workers_cannot_share_is_refused():
    with pytest.raises(ValueError, match="batch_size 10 is not divisible by the 3 workers"):
        training(numbered(20), batch_size=10, worker=pipeline.Worker(0, 3))


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_images():
    bench = pathlib.Path(__file__).parents[2] / "scripts" / "bench"
    printed = subprocess.run([sys.executable, bench, "memory"], check=True, capture_output=True, text=True).stdout
    megabytes = [int(line.split()[2].replace(",", "")) for line in printed.splitlines()]
    assert len(megabytes) == 2 and abs(megabytes[1] - megabytes[0]) < 200, printed


def test_no_unreadable_image_is_allowed_where_none_is():
    assert allowed_bad_images(0, None) == allowed_bad_images(0, 1000) == 0
    assert allowed_bad_images(0.01, 1000) == 10
    assert allowed_bad_images(5, None) == allowed_bad_images(5, 10) == 5
