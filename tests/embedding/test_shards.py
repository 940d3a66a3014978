"""Shards that something has happened to: damaged, left in the middle, or without room."""

import contextlib
import logging
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

from lci_tf import files
from lci_tf.embedding import embedding, shards
from lci_tf.runs import preemption
from tests.embedding.test_embedding import EXPECTED, SHAPES, WORK, MeanGrey, photos, read  # noqa: F401

kinds = pytest.mark.parametrize("kind", shards.FORMATS)
ALL = {"images": 37, "unreadable": 3}


@pytest.fixture
def warnings(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("lci_tf"), "propagate", True)
    return caplog


def interrupted(photos, stored):  # noqa: F811
    """Two shards of four are there."""
    with pytest.raises(KeyboardInterrupt):
        embedding.embed(photos, MeanGrey(fail_at=24), WORK, stored)
    assert stored.first_missing() == 2


def empty(path):
    path.write_bytes(b"")


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def lose_what_is_known(path):
    path.with_name(f".{path.name}.notes").unlink()


@kinds
@pytest.mark.parametrize("damage, said", [
    (empty, "has 0 bytes, and had "),
    (flip_a_bit, "has another checksum than it had"),
    (lose_what_is_known, "has no notes about its contents"),
])  # fmt: skip
def test_a_damaged_shard_is_made_again(photos, tmp_path, kind, damage, said, warnings):  # noqa: F811
    stored = shards.FORMATS[kind](tmp_path / "out", SHAPES)
    interrupted(photos, stored)
    damage(stored.path(1))
    assert embedding.embed(photos, MeanGrey(), WORK, stored) == ALL
    np.testing.assert_array_equal(read(tmp_path / "out", kind)[0], EXPECTED)
    (message,) = [record.getMessage() for record in warnings.records if record.levelno == logging.WARNING]
    assert message.startswith(f"{stored.path(1)}: {said}") and message.endswith("; it will be made again")


@kinds
def test_what_has_gone_since_it_was_finished_is_made_again(photos, tmp_path, kind):  # noqa: F811
    stored = shards.FORMATS[kind](tmp_path / "out", SHAPES)
    embedding.embed(photos, MeanGrey(), WORK, stored)
    (tmp_path / "out" / ("embedding.npy" if kind == "npy" else "features-00001.tfrecord")).write_bytes(b"")
    predictor = MeanGrey()
    assert embedding.embed(photos, predictor, WORK, stored) == ALL
    np.testing.assert_array_equal(read(tmp_path / "out", kind)[0], EXPECTED)


def test_a_shard_that_shrinks_before_the_end_is_no_success(photos, tmp_path, refusal):  # noqa: F811
    stored = shards.TFRecordShards(tmp_path / "out", SHAPES)
    embedding.begin(stored.folder, WORK.protocol)
    for shard, count in ((0, 10), (1, 10), (2, 10), (3, 7)):
        embedding.embed_shard(photos, MeanGrey(), WORK, stored, shard, count)
    empty(stored.path(1))
    assert refusal(stored.finish).startswith(f"{stored.path(1)}: has 0 bytes, and had ")
    assert stored.summary() is None


@kinds
def test_a_shard_is_on_the_disk_before_it_counts(photos, tmp_path, kind, monkeypatch):  # noqa: F811
    stored, synced = shards.FORMATS[kind](tmp_path, SHAPES), []

    def sync(path):
        assert path.stat().st_size > 0 and not stored.is_there(0)
        synced.append(path)

    monkeypatch.setattr(files, "sync", sync)
    embedding.embed_shard(photos, MeanGrey(), WORK, stored, 0, 10)
    assert len(synced) == 1 and stored.is_there(0)


class ToldToEnd(MeanGrey):
    """SIGTERM comes while it is asked for so many images."""

    def __init__(self, at):
        super().__init__()
        self._at = at

    def predict(self, contents, outputs):
        before = self.asked
        answer = super().predict(contents, outputs)
        if before <= self._at < self.asked:
            os.kill(os.getpid(), signal.SIGTERM)
        return answer


@kinds
def test_told_to_end_it_loses_nothing_that_was_answered(photos, tmp_path, kind):  # noqa: F811
    """Again and again, at any place: no image is asked for more than once, but for those that were under way."""
    stored = shards.FORMATS[kind](tmp_path / "out", SHAPES)
    one_by_one, ended, asked = WORK._replace(batch_size=1, in_flight=1), 0, 0
    while stored.summary() is None:
        predictor = ToldToEnd(at=6)
        with contextlib.suppress(preemption.Preempted), preemption.listening():
            embedding.embed(photos, predictor, one_by_one, stored)
        ended, asked = ended + 1, asked + predictor.asked
    assert 4 <= ended <= 8 and 34 <= asked <= 34 + 2 * ended
    np.testing.assert_array_equal(read(tmp_path / "out", kind)[0], EXPECTED)
    assert stored.summary() == ALL
    assert (tmp_path / "out" / "bad_images.txt").read_text().split() == [photos.paths[i] for i in (8, 9, 20)]


@kinds
@pytest.mark.parametrize("shard, count", [(0, 10), (3, 7)])
def test_a_shard_that_lacked_no_image_when_it_was_left(photos, tmp_path, kind, shard, count):  # noqa: F811
    stored = shards.FORMATS[kind](tmp_path / "out", SHAPES)
    embedding.begin(stored.folder, WORK.protocol)
    for earlier in range(shard):
        embedding.embed_shard(photos, MeanGrey(), WORK, stored, earlier, 10)

    def batches():
        yield from embedding._answers(photos, MeanGrey(), WORK, 10 * shard, 10 * shard + count)
        os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(preemption.Preempted, match=f"image {count} of shard {shard}"), preemption.listening():
        stored.write(shard, batches())
    assert not stored.is_there(shard) and stored.count_begun(shard) == count
    predictor = MeanGrey()
    assert embedding.embed(photos, predictor, WORK, stored) == ALL
    assert predictor.asked == (26 if shard == 0 else 0)  # of the other 27 images, one is none
    np.testing.assert_array_equal(read(tmp_path / "out", kind)[0], EXPECTED)


@contextlib.contextmanager
def files_of_at_most(size):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@kinds
@pytest.mark.parametrize("size", [300, 700])  # too small for a shard; for the array that is made of them
def test_without_room_it_ends_in_one_line_and_goes_on_with_more(photos, tmp_path, kind, size, refusal):  # noqa: F811
    if (kind, size) == ("tfrecord", 700):
        size = 1_000
    stored = shards.FORMATS[kind](tmp_path / "out", SHAPES)
    embedding.begin(stored.folder, WORK.protocol)
    with files_of_at_most(size):
        message = refusal(embedding.embed, photos, MeanGrey(), WORK, stored)
    assert message.startswith(f"--out_dir={tmp_path}/out: cannot be written to (") and stored.summary() is None
    assert not list((tmp_path / "out").glob(".*.new"))
    assert embedding.embed(photos, MeanGrey(), WORK, stored) == ALL
    np.testing.assert_array_equal(read(tmp_path / "out", kind)[0], EXPECTED)


ON_A_SMALL_DISK = """
import sys
import numpy as np
from lci_tf.embedding import shards
from lci_tf.errors import InputError

stored = shards.FORMATS[sys.argv[2]](shards.pathlib.Path(sys.argv[1]), {"embedding": (1024,)})
rows = shards.Rows(np.arange(64), ["a"] * 64, {"embedding": np.ones([64, 1024], np.float32)}, np.ones([64], bool))
try:
    for shard in range(20):
        stored.write(shard, [rows] * 4)
    print(stored.finish())
except InputError as error:
    print(shard, error)
"""
IN_A_NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]


@pytest.mark.slow
@pytest.mark.skipif(
    not shutil.which("unshare") or subprocess.run([*IN_A_NAMESPACE, "true"], capture_output=True).returncode != 0,
    reason="needs a mount namespace",
)
@kinds
@pytest.mark.parametrize("megabytes", [4, 30])  # too small for the shards; for the array beside them
def test_on_a_full_disk(tmp_path, kind, megabytes):
    if (kind, megabytes) == ("tfrecord", 30):
        pytest.skip("20 shards have room")
    script = ON_A_SMALL_DISK.replace("shards.pathlib", "__import__('pathlib')")
    mount = f'mount -t tmpfs -o size={megabytes}m small {tmp_path} && "$0" -c "$1" {tmp_path} {kind}'
    ended = subprocess.run(
        [*IN_A_NAMESPACE, "sh", "-c", mount, sys.executable, script],
        capture_output=True, text=True, cwd=pathlib.Path(__file__).parents[2],
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    shard, message = ended.stdout.split(" ", 1)
    assert message.startswith(f"--out_dir={tmp_path}: cannot be written to (") and message.count("\n") == 1
    assert int(shard) == (19 if megabytes == 30 else 3)
