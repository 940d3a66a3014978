"""By Beam's local runner, beside the plain way."""

import contextlib
import dataclasses
import pathlib
import shutil
import threading

import numpy as np
import pytest
import tensorflow as tf

from lci_tf.embedding import embedding, shards
from lci_tf.embedding.job import Job
from lci_tf.errors import InputError

pytest.importorskip("apache_beam", reason="needs pip install lci_tf[beam]")
from lci_tf.embedding import beam_pipeline


@pytest.fixture(scope="module")
def many_photos(photos, tmp_path_factory):
    """23 images of many sizes and formats, of which two are none."""
    folder = tmp_path_factory.mktemp("many")
    files = sorted(photos.iterdir())
    for i in range(23):
        original = files[i % len(files)]
        shutil.copy(original, folder / f"{i:02d}{original.suffix}")
    for i in (5, 22):
        next(folder.glob(f"{i:02d}.*")).write_text("no image")
    return folder


@pytest.fixture
def job(export_dir, many_photos, tmp_path):
    return Job(
        dataset="folder",
        split=None,
        data_dir=(str(many_photos),),
        model=str(export_dir),
        server=None,
        model_name="features",
        deadline=60.0,
        features=("embedding", "transformation"),
        format="tfrecord",
        out_dir=str(tmp_path / "out"),
        batch_size=4,
        in_flight=2,
        shard_size=6,
    )


def plainly(job, tmp_path):
    """The same job without Beam: its folder."""
    job = dataclasses.replace(job, out_dir=str(tmp_path / "plain"))
    assert embedding.embed(*job.open()) == {"images": 23, "unreadable": 2}
    return tmp_path / "plain"


def assert_same(folder, expected):
    assert {path.name for path in folder.iterdir()} == {path.name for path in expected.iterdir()}
    for name in ("bad_images.txt", "embed.json"):
        assert (folder / name).read_text() == (expected / name).read_text()
    for shard in range(4):
        for a, b in zip(*(examples(place, shard) for place in (folder, expected)), strict=True):
            assert a["image/name"] == b["image/name"] and a["image/index"] == b["image/index"]
            for feature in ("embedding", "transformation"):
                np.testing.assert_allclose(a[feature].float_list.value, b[feature].float_list.value, atol=1e-6)


def examples(folder, shard):
    records = tf.data.TFRecordDataset(f"{folder}/features-{shard:05d}.tfrecord")
    return [tf.train.Example.FromString(record.numpy()).features.feature for record in records]


def test_the_same_as_without_beam(job, tmp_path):
    assert beam_pipeline.embed(job, "DirectRunner") == {"images": 23, "unreadable": 2}
    assert_same(tmp_path / "out", plainly(job, tmp_path))


@pytest.mark.slow
def test_the_same_by_several_processes(job, tmp_path):
    options = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
    workers, done = set(), threading.Event()

    def look_for_workers():
        while not done.wait(timeout=0.2):
            for process in pathlib.Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    if b"sdk_worker_main" in (process / "cmdline").read_bytes():
                        workers.add(process.name)

    looking = threading.Thread(target=look_for_workers)
    looking.start()
    try:
        assert beam_pipeline.embed(job, "DirectRunner", options) == {"images": 23, "unreadable": 2}
    finally:
        done.set()
        looking.join()
    assert len(workers) >= 2
    assert_same(tmp_path / "out", plainly(job, tmp_path))


def test_only_what_is_missing_is_made(job, tmp_path):
    """Of a folder that the plain way has begun: what is there is not made again."""
    source, predictor, work, stored = job.open()
    embedding.begin(stored.folder, work.protocol)
    for shard, count in ((0, 6), (1, 6), (3, 5)):
        embedding.embed_shard(source, predictor, work, stored, shard, count)
    made = stored.path(3).stat()
    (tmp_path / "out" / ".features-00002.tfrecord.killed.new").write_text("half")
    assert beam_pipeline.embed(job, "DirectRunner")["images"] == 23
    assert stored.path(3).stat().st_ino == made.st_ino
    assert_same(tmp_path / "out", plainly(job, tmp_path))
    assert beam_pipeline.embed(job, "DirectRunner") == {"images": 23, "unreadable": 2}  # it is finished


def test_streams_are_counted_first(job, many_photos, tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "photos.tfrecord")) as writer:
        for path in sorted(many_photos.iterdir()):
            image = tf.train.Feature(bytes_list=tf.train.BytesList(value=[path.read_bytes()]))
            writer.write(tf.train.Example(features=tf.train.Features(feature={"image": image})).SerializeToString())
    job = dataclasses.replace(job, dataset="tfrecord", data_dir=(str(tmp_path),))
    assert beam_pipeline.embed(job, "DirectRunner") == {"images": 23, "unreadable": 2}
    assert_same(tmp_path / "out", plainly(job, tmp_path))


def test_from_a_bucket_to_a_bucket(job, many_photos, bucket, tmp_path):
    for path in many_photos.iterdir():
        (bucket / "photos" / path.name).parent.mkdir(parents=True, exist_ok=True)
        (bucket / "photos" / path.name).write_bytes(path.read_bytes())
    there = dataclasses.replace(job, data_dir=(f"{bucket}/photos",), out_dir=f"{bucket}/out")
    assert beam_pipeline.embed(there, "DirectRunner") == {"images": 23, "unreadable": 2}
    expected = plainly(job, tmp_path)
    for shard in range(4):
        for a, b in zip(examples(bucket / "out", shard), examples(expected, shard), strict=True):
            here = pathlib.Path(b["image/name"].bytes_list.value[0].decode())
            assert a["image/name"].bytes_list.value[0].decode() == f"{bucket}/photos/{here.name}"
            np.testing.assert_allclose(a["embedding"].float_list.value, b["embedding"].float_list.value, atol=1e-6)
    assert (bucket / "out" / "bad_images.txt").read_text().count("\n") == 2


def test_mistakes_are_told_before_anything_is_written(job, tmp_path, refusal):
    assert refusal(beam_pipeline.embed, job, "NoRunner").startswith("--runner=NoRunner: Unexpected pipeline runner")
    message = refusal(beam_pipeline.embed, job, "DirectRunner", ["--direct_num_workers=x"])
    assert message == "--runner_options: argument --direct_num_workers: invalid int value: 'x'"
    assert (
        refusal(beam_pipeline.embed, job, "DirectRunner", ["--help"])
        == "--runner_options: expected flags of the runner"
    )
    assert not (tmp_path / "out").exists()


def test_a_worker_of_a_shorter_stream(job, many_photos, monkeypatch, tmp_path, refusal):
    """As where some of the TFRecords have not been copied: no shard is short."""
    monkeypatch.setattr(beam_pipeline, "_count", lambda source: 29)
    assert "ends at image 23 on this machine, but not on others" in refusal(beam_pipeline.embed, job, "DirectRunner")
    assert not (tmp_path / "out" / "features-00004.tfrecord").exists()


def test_a_worker_that_sees_other_images(job, monkeypatch, refusal):
    """As on a machine where the folder holds other files: it tells what it found, and no shard is written."""

    def elsewhere(self, opened):
        return dataclasses.replace(self, data_dir=(str(pathlib.Path(self.data_dir[0]).parent),))

    monkeypatch.setattr(Job, "for_other_machines", elsewhere)
    message = refusal(beam_pipeline.embed, job, "DirectRunner")
    assert message.startswith("a worker of the pipeline: --out_dir=") and "was begun with data" in message
    assert not list(pathlib.Path(job.out_dir).glob("features-*"))


def test_workers_that_write_elsewhere(job, monkeypatch, tmp_path, refusal):
    monkeypatch.setattr(
        Job, "for_other_machines", lambda self, opened: dataclasses.replace(self, out_dir=str(tmp_path / "local"))
    )
    message = refusal(beam_pipeline.embed, job, "DirectRunner")
    assert "4 of 4 shards are missing" in message and "do all machines see the same folder?" in message


def test_two_workers_may_make_the_same_shard(job):
    """Neither takes the other's half-written file for its own."""
    source, predictor, work, stored = job.open()
    embedding.begin(stored.folder, work.protocol)

    def batches():
        rows = embedding._answers(source, predictor, work, 0, 6)
        yield next(rows)
        embedding.embed_shard(source, predictor, work, stored, 0, 6)  # the other, faster
        yield from rows

    stored.write(0, batches())
    assert len(list(tf.data.TFRecordDataset(str(stored.path(0))))) == 6


def test_other_errors_are_not_hidden(job, monkeypatch):
    def broken(self, path):
        raise RuntimeError("out of order")

    monkeypatch.setattr(shards.TFRecordShards, "_open", broken)
    with pytest.raises(Exception, match="out of order") as caught:
        beam_pipeline.embed(job, "DirectRunner")
    assert not isinstance(caught.value, InputError)
