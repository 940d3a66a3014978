import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from lci_tf.config import probe_protocols
from lci_tf.data.sets import tfrecord
from lci_tf.data.source import PixelArray
from lci_tf.evaluation.probe import tasks

PROTOCOL = probe_protocols.resolve("stl10", {"crop_size": 8, "resize": 12, "batch_size": 20})


def numbered(count, split):
    """Image i is of the grey level i, and of class i % 2."""
    levels = np.arange(count, dtype=np.uint8)
    pixels = np.broadcast_to(levels[:, None, None, None], [count, 12, 12, 3]).copy()
    return PixelArray(name="numbers", split=split, count=count, label_kind="class", label_names=("even", "odd"),
                      pixels=pixels, labels=np.arange(count, dtype=np.int64) % 2)  # fmt: skip


@pytest.fixture(scope="module")
def task():
    return tasks.by_labels(numbered(50, "train"), numbered(30, "test"), PROTOCOL, seed=1, views="ten")


def levels(batch):
    return np.round((batch["image"].numpy().reshape(len(batch["label"]), -1).mean(axis=1) + 1) * 127.5).astype(int)


def test_training_may_begin_anywhere(task):
    assert (task.label_kind, task.label_names, task.count, task.test_count) == ("class", ("even", "odd"), 50, 30)
    first = [batch for batch, _ in zip(task.train(0), range(5), strict=False)]
    seen = np.concatenate([levels(batch) for batch in first])
    assert sorted(seen) == sorted([*range(50)] * 2)  # two epochs
    assert (seen[:50] != np.arange(50)).any()
    later = next(iter(task.train(3)))
    np.testing.assert_array_equal(later["image"], first[3]["image"])
    np.testing.assert_array_equal(later["label"], levels(later) % 2)


def test_testing_is_in_order_and_by_ten_crops(task):
    batches = list(task.test())
    assert batches[0]["image"].shape == [2, 10, 8, 8, 3]  # as many crops at once as in training
    np.testing.assert_array_equal(np.concatenate([levels(batch) for batch in batches]), np.arange(30))


def test_a_pass_over_the_training_images_without_chance(task):
    batches = list(task.train_once())
    assert batches[0]["image"].shape == [20, 1, 8, 8, 3]
    np.testing.assert_array_equal(np.concatenate([levels(batch) for batch in batches]), np.arange(50))


def test_unreadable_images_are_reported_in_one_line(tmp_path, write_png, refusal):
    from lci_tf.data.sets import folder

    for name in ("cat", "dog"):
        write_png(f"{name}/1.png", 12, 12)
    (tmp_path / "cat" / "1.png").write_bytes(b"not an image")
    source = folder.open_folder(tmp_path, split="all")
    broken = tasks.by_labels(source, source, PROTOCOL, max_bad_images=0)
    for batches in (broken.train(0), broken.test()):
        assert "cat/1.png" in refusal(list, batches)


def test_a_stream_is_counted(tmp_path):
    (tmp_path / "labels.txt").write_text("even\nodd\n")
    Image.fromarray(np.zeros([12, 12, 3], np.uint8)).save(tmp_path / "0.png")
    features = {
        "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[(tmp_path / "0.png").read_bytes()])),
        "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[1])),
    }
    record = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
    with tf.io.TFRecordWriter(str(tmp_path / "train.tfrecord")) as writer:
        for _ in range(7):
            writer.write(record)
    source = tfrecord.find(tmp_path)["train"]()
    assert source.count is None and tasks.with_count(source).count == 7
    known = numbered(5, "train")
    assert tasks.with_count(known) is known
