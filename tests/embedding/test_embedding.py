"""With a predictor that tells images by their bytes: what is tested is order, rows, shards and resuming."""

import dataclasses
import json
import pathlib
import tracemalloc

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from lci_tf.data.sets.folder import open_folder
from lci_tf.data.source import PixelArray, StreamSource
from lci_tf.embedding import embedding, shards
from lci_tf.serving.unreadable import UnreadableImages

WORK = embedding.Work(("embedding",), batch_size=4, in_flight=2, shard_size=10, protocol={"model": "grey"})
SHAPES = {"embedding": (2,)}


class MeanGrey:
    """Features are the mean grey level of a PNG and its number of pixels."""

    outputs = ("embedding",)

    def __init__(self, fail_at=None):
        """`fail_at`: from which grey level on."""
        self.asked, self._fail_at = 0, fail_at

    def predict(self, contents, outputs):
        bad = [i for i, content in enumerate(contents) if not content.startswith(b"\x89PNG")]
        if bad:
            raise UnreadableImages(bad)
        self.asked += len(contents)
        pixels = [tf.io.decode_png(content).numpy() for content in contents]
        if self._fail_at is not None and any(image.min() >= self._fail_at for image in pixels):
            raise KeyboardInterrupt
        rows = np.array([[image.mean(), image[..., 0].size] for image in pixels], np.float32).reshape([-1, 2])
        return dict.fromkeys(outputs, rows)


@pytest.fixture
def photos(tmp_path):
    """37 images, of which image i is of grey i, but for three that are none."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for i in range(37):
        Image.fromarray(np.full([4, 4, 3], i, np.uint8)).save(folder / f"{i:02d}.png")
    for i in (8, 9, 20):
        (folder / f"{i:02d}.png").write_text("no image")
    return open_folder(folder, split="all")


EXPECTED = np.array([[0, 0] if i in (8, 9, 20) else [i, 16] for i in range(37)], np.float32)


def read(folder, kind):
    if kind == "npy":
        return np.load(folder / "embedding.npy"), (folder / "paths.txt").read_text().splitlines()
    rows, names = [], []
    for record in tf.data.TFRecordDataset(sorted(str(p) for p in folder.glob("features-*.tfrecord"))):
        feature = tf.train.Example.FromString(record.numpy()).features.feature
        rows.append(feature["embedding"].float_list.value)
        names.append(feature["image/name"].bytes_list.value[0].decode())
        assert feature["image/index"].int64_list.value[0] == len(rows) - 1
        assert feature["valid"].int64_list.value[0] == any(rows[-1])
    return np.array(rows), names


@pytest.mark.parametrize("kind", shards.FORMATS)
def test_a_row_for_every_image_in_order(photos, tmp_path, kind):
    stored = shards.FORMATS[kind](tmp_path / "out", SHAPES)
    found = embedding.embed(photos, MeanGrey(), WORK, stored)
    rows, names = read(tmp_path / "out", kind)
    np.testing.assert_array_equal(rows, EXPECTED)
    assert names == list(photos.paths)
    assert found == {"images": 37, "unreadable": 3}
    assert (tmp_path / "out" / "bad_images.txt").read_text().split() == [photos.paths[i] for i in (8, 9, 20)]
    left = {path.name for path in (tmp_path / "out").iterdir()}
    kept = {"embedding.npy", "paths.txt"} if kind == "npy" else {f"features-{i:05d}.tfrecord" for i in range(4)}
    assert left == {"embed.json", "bad_images.txt", "summary.json", *kept}


def test_where_nothing_can_be_read(photos, tmp_path):
    for path in photos.paths:
        pathlib.Path(path).write_text("no image")
    found = embedding.embed(photos, MeanGrey(), WORK, shards.NumpyShards(tmp_path / "out", SHAPES))
    assert found == {"images": 37, "unreadable": 37}
    assert not read(tmp_path / "out", "npy")[0].any()


@pytest.mark.parametrize("kind", shards.FORMATS)
def test_interrupted_it_goes_on_and_does_no_shard_twice(photos, tmp_path, kind):
    stored = shards.FORMATS[kind](tmp_path / "out", SHAPES)
    with pytest.raises(KeyboardInterrupt):
        embedding.embed(photos, MeanGrey(fail_at=24), WORK, stored)
    assert stored.first_missing() == 2 and stored.summary() is None
    predictor = MeanGrey()
    found = embedding.embed(photos, predictor, WORK, stored)
    assert predictor.asked == 37 - 20 - 1  # of the last 17, one is no image
    np.testing.assert_array_equal(read(tmp_path / "out", kind)[0], EXPECTED)
    assert found == {"images": 37, "unreadable": 3}
    assert embedding.embed(photos, MeanGrey(fail_at=0), WORK, stored) == found  # it is finished


def test_shards_by_many_workers_are_the_same(photos, tmp_path):
    stored = shards.NumpyShards(tmp_path / "out", SHAPES)
    embedding.begin(stored.folder, WORK.protocol)
    for shard, count in ((3, 7), (0, 10), (2, 10), (1, 10), (0, 10)):
        embedding.embed_shard(photos, MeanGrey(), WORK, stored, shard, count)
    assert stored.finish() == {"images": 37, "unreadable": 3}
    np.testing.assert_array_equal(read(tmp_path / "out", "npy")[0], EXPECTED)


def test_a_shard_of_which_images_are_missing_does_not_appear(photos, tmp_path, refusal):
    stored = shards.NumpyShards(tmp_path / "out", SHAPES)
    embedding.begin(stored.folder, WORK.protocol)
    message = refusal(embedding.embed_shard, photos, MeanGrey(), WORK, stored, 3, 10)
    assert message == "folder all: ends at image 37 on this machine, but not on others"
    assert stored.missing(range(4)) == [0, 1, 2, 3]


def test_batches_stay_small_where_nothing_can_be_read(photos, tmp_path):
    for i in range(2, 30):
        (tmp_path / "photos" / f"{i:02d}.png").unlink()
    batches = list(embedding._contents(photos, 4, 0, None))
    assert [len(contents) for _, contents in batches] == [4] * 9 + [1]
    assert np.concatenate([index for index, _ in batches]).tolist() == list(range(37))


def test_what_cannot_be_reached_now_is_not_taken_for_unreadable(photos, tmp_path, monkeypatch, refusal):
    """As when credentials expire: what is done stays, and what is not is done when it is started again."""
    read = type(photos).read

    def away(self, image):
        if tf.executing_eagerly():
            raise tf.errors.UnauthenticatedError(None, None, "who are you?")
        return read(self, image)

    (tmp_path / "photos" / "25.png").unlink()
    stored = shards.TFRecordShards(tmp_path / "out", SHAPES)
    monkeypatch.setattr(type(photos), "read", away)
    message = refusal(embedding.embed, photos, MeanGrey(), WORK, stored)
    assert message.startswith(f"{tmp_path}/photos/25.png: cannot be reached (who are you?); started again")
    assert not stored.is_there(2) and stored.summary() is None
    monkeypatch.undo()
    assert embedding.embed(photos, MeanGrey(), WORK, stored) == {"images": 37, "unreadable": 4}


def test_what_is_read_at_the_second_try_has_its_features(photos, tmp_path, monkeypatch):
    """As on a network disk that is away for a moment: the pipeline fails to read, and the next look succeeds."""
    read, path = type(photos).read, photos.paths[25]

    def fails_at_first(self, image):
        return read(self, image if tf.executing_eagerly() else tf.where(image == path, "/away", image))

    monkeypatch.setattr(type(photos), "read", fails_at_first)
    stored = shards.NumpyShards(tmp_path / "out", SHAPES)
    assert embedding.embed(photos, MeanGrey(), WORK, stored) == {"images": 37, "unreadable": 3}
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "embedding.npy"), EXPECTED)


def test_pixels(tmp_path):
    pixels = np.arange(23, dtype=np.uint8)[:, None, None, None] * np.ones([1, 5, 5, 3], np.uint8)
    source = PixelArray(name="grey", split="all", count=23, pixels=pixels)
    stored = shards.NumpyShards(tmp_path / "out", SHAPES)
    assert embedding.embed(source, MeanGrey(), WORK, stored)["images"] == 23
    np.testing.assert_array_equal(read(tmp_path / "out", "npy")[0][:, 0], np.arange(23))


@dataclasses.dataclass(frozen=True, kw_only=True)
class GreyStream(StreamSource):
    """So many PNGs, one after the other, image i of grey i."""

    total: int

    def stream(self):
        def png(i):
            return {"image": tf.io.encode_png(tf.fill([4, 4, 3], tf.cast(i, tf.uint8)))}

        return tf.data.Dataset.range(self.total).map(png)


@pytest.mark.parametrize("count", [37, None])
def test_a_stream_goes_on_where_it_was(tmp_path, count):
    source = GreyStream(name="grey", split="all", count=count, total=37)
    stored = shards.NumpyShards(tmp_path / "out", SHAPES)
    with pytest.raises(KeyboardInterrupt):
        embedding.embed(source, MeanGrey(fail_at=24), WORK, stored)
    predictor = MeanGrey()
    assert embedding.embed(source, predictor, WORK, stored) == {"images": 37, "unreadable": 0}
    assert predictor.asked == 37 - 20
    rows, names = read(tmp_path / "out", "npy")
    np.testing.assert_array_equal(rows[:, 0], np.arange(37))
    assert names == [f"image {i} of grey all" for i in range(37)]


def test_a_shard_is_not_held_in_memory(tmp_path):
    def batches():
        for i in range(32):
            features = {"embedding": np.full([64, 4096], i, np.float32)}  # a mebibyte
            yield shards.Rows(np.arange(64), ["a"] * 64, features, np.ones([64], bool))

    stored = shards.NumpyShards(tmp_path, {"embedding": (4096,)})
    tracemalloc.start()
    stored.write(0, batches())
    assert stored.finish()["images"] == 2048
    assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    tracemalloc.stop()
    np.testing.assert_array_equal(np.load(tmp_path / "embedding.npy")[:, 0], np.repeat(np.arange(32), 64))


@pytest.mark.parametrize("gone", [(30,), (0, 1, 2, 3, 4), (12, 13, 35, 36), tuple(range(37))])
def test_files_that_have_gone_are_listed(photos, tmp_path, gone):
    for i in gone:
        (tmp_path / "photos" / f"{i:02d}.png").unlink()
    stored = shards.NumpyShards(tmp_path / "out", SHAPES)
    unreadable = sorted({*gone, 8, 9, 20})
    assert embedding.embed(photos, MeanGrey(), WORK, stored) == {"images": 37, "unreadable": len(unreadable)}
    assert (tmp_path / "out" / "bad_images.txt").read_text().split() == [photos.paths[i] for i in unreadable]
    rows, names = read(tmp_path / "out", "npy")
    assert names == list(photos.paths) and not rows[unreadable].any()
    readable = [i for i in range(37) if i not in unreadable]
    np.testing.assert_array_equal(rows[readable], EXPECTED[readable])


def test_other_work_is_not_mixed(photos, tmp_path, refusal):
    embedding.begin(tmp_path / "out", {"model": "a", "shard_size": 10})
    message = refusal(embedding.begin, tmp_path / "out", {"model": "b", "shard_size": 10})
    assert message == f"--out_dir={tmp_path}/out: was begun with model a, not b; choose another --out_dir"
    assert json.loads((tmp_path / "out" / "embed.json").read_text())["model"] == "a"
    assert "is not empty, and has no embed.json" in refusal(embedding.begin, tmp_path / "photos", {})
