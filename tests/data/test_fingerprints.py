"""What changes the fingerprint of a source, and what does not."""

import dataclasses
import gzip
import shutil

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from lci_tf.data import cache, fingerprints, open_source, share
from lci_tf.data.source import PixelArray, joined


@pytest.fixture
def photos(tmp_path, write_png):
    for i, name in enumerate(("cat/1.png", "cat/2.png", "dog/3.png", "dog/4.png")):
        write_png(f"photos/{name}", height=5 + i)
    return tmp_path / "photos"


def of(place, dataset="folder"):
    return open_source(dataset, data_dirs=[place]).fingerprint


def test_a_fingerprint_does_not_depend_on_where_a_folder_is(photos, tmp_path, bucket):
    shutil.copytree(photos, tmp_path / "elsewhere" / "copy")
    assert of(photos) == of(tmp_path / "elsewhere" / "copy")
    assert all(len(digits) == 16 for digits in of(photos).values())
    decoded = cache.in_memory(open_source("folder", data_dirs=[photos]), resize=4)
    assert decoded.fingerprint == of(photos)  # so that --cache may come and go


def change_size(place):
    Image.fromarray(np.zeros([50, 50, 3], np.uint8)).save(place / "cat" / "1.png")


def rename(place):
    (place / "cat" / "1.png").rename(place / "cat" / "0.png")


def remove(place):
    (place / "cat" / "1.png").unlink()


@pytest.mark.parametrize("change", [change_size, rename, remove])
def test_other_images(photos, change):
    before = of(photos)
    change(photos)
    assert of(photos)["contents"] != before["contents"]


def test_a_corrected_label(tmp_path, write_png):
    for i in range(3):
        write_png(f"{i}.png")
    table = tmp_path / "attributes.csv"
    table.write_text("split,file,smiling\ntrain,0.png,0\ntrain,1.png,1\ntrain,2.png,1\n")
    before = of(tmp_path, "celeb_a")
    table.write_text("split,file,smiling\ntrain,0.png,1\ntrain,1.png,1\ntrain,2.png,1\n")
    after = of(tmp_path, "celeb_a")
    assert after["contents"] == before["contents"] and after["labels"] != before["labels"]
    table.write_text("split,file,laughing\ntrain,0.png,1\ntrain,1.png,1\ntrain,2.png,1\n")
    assert of(tmp_path, "celeb_a")["labels"] != after["labels"]


def test_files_whose_sizes_tell_nothing_are_sampled(tmp_path):
    for name, grey in (("a", 10), ("b", 11)):
        (tmp_path / name).mkdir()
        for i in range(3):
            Image.fromarray(np.full([4, 4, 3], grey + (10 * i), np.uint8)).save(tmp_path / name / f"{i}.bmp")
    assert of(tmp_path / "a")["contents"] != of(tmp_path / "b")["contents"]


def test_files_that_are_not_compressed_are_sampled_whatever_their_sizes(tmp_path):
    for name, grey in (("a", 10), ("b", 11)):
        (tmp_path / name).mkdir()
        for i, side in enumerate((4, 6)):
            Image.fromarray(np.full([side, side, 3], grey, np.uint8)).save(tmp_path / name / f"{i}.bmp")
    assert of(tmp_path / "a")["contents"] != of(tmp_path / "b")["contents"]


def pixels(count=1000, labels=None):
    images = np.random.default_rng(0).integers(0, 256, [count, 4, 4, 3], np.uint8)
    labels = np.arange(count) % 2 if labels is None else labels
    return PixelArray(name="noise", split="all", count=count, label_kind="class", label_names=("a", "b"),
                      pixels=images, labels=labels)  # fmt: skip


def test_arrays_are_sampled():
    source = pixels()
    assert source.fingerprint == pixels().fingerprint
    corrected = pixels(labels=np.concatenate([[1], source.labels[1:]])).fingerprint
    assert corrected["contents"] == source.fingerprint["contents"] != pixels(999).fingerprint["contents"]
    assert corrected["labels"] != source.fingerprint["labels"]
    for place in (0, 999):  # the first and the last are among the samples
        other = source.pixels.copy()
        other[place] += 1
        assert dataclasses.replace(source, pixels=other).fingerprint["contents"] != source.fingerprint["contents"]


def write_records(path, labels, compression=""):
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for i, label in enumerate(labels):
            image = tf.io.encode_png(np.full([4, 4, 3], i, np.uint8)).numpy()
            feature = {
                "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
                "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


@pytest.mark.parametrize(("name", "compression"), [("train.tfrecord", ""), ("train.tfrecord.gz", "GZIP")])
def test_a_label_in_a_record_is_seen(tmp_path, name, compression):
    (tmp_path / "labels.txt").write_text("cat\ndog\n")
    labels = [0, 1] * 50
    write_records(tmp_path / name, labels, compression)
    before, size = of(tmp_path, "tfrecord"), (tmp_path / name).stat().st_size
    assert of(tmp_path, "tfrecord") == before
    labels[41] = 0
    write_records(tmp_path / name, labels, compression)
    assert of(tmp_path, "tfrecord")["contents"] != before["contents"]
    assert compression or (tmp_path / name).stat().st_size == size  # which tells nothing
    (tmp_path / "labels.txt").write_text("cat\nwolf\n")
    assert of(tmp_path, "tfrecord")["labels"] != before["labels"]


def test_all_records_are_seen_though_none_is_read(tmp_path):
    write_records(tmp_path / "a.tfrecord", range(20))
    stored = (tmp_path / "a.tfrecord").read_bytes()
    (_, checksums) = fingerprints.of_records([str(tmp_path / "a.tfrecord")])
    assert len(checksums) == 20 * 12
    with gzip.open(tmp_path / "b.tfrecord.gz", "wb") as file:
        file.write(stored)
    (_, ends) = fingerprints.of_records([str(tmp_path / "b.tfrecord.gz")])
    assert ends != checksums


def test_images_in_a_bucket(photos, bucket):
    for path in photos.glob("*/*.png"):
        (bucket / path.parent.name).mkdir(parents=True, exist_ok=True)
        (bucket / path.parent.name / path.name).write_bytes(path.read_bytes())
    assert of(str(bucket)) == of(photos)


def test_different_shares_have_different_fingerprints():
    source = pixels(100)
    shares = [share.between(source, 0, 0.5), share.between(source, 0.5, 1), share.at_most(source, 50),
              share.of_numbers(source, np.arange(50)), source]  # fmt: skip
    assert (
        len({one.fingerprint["contents"] for one in shares}) == len({one.fingerprint["labels"] for one in shares}) == 4
    )
    again = share.of_numbers(pixels(100), np.arange(50))
    assert again.fingerprint == share.of_numbers(source, np.arange(50)).fingerprint


def test_joined_folders(photos, tmp_path):
    shutil.copytree(photos, tmp_path / "more")
    both = [open_source("folder", data_dirs=[place]) for place in (photos, tmp_path / "more")]
    assert joined(both).fingerprint["contents"] != both[0].fingerprint["contents"]
