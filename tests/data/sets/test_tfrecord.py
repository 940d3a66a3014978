import gzip

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from lci_tf.data import open_source, split_names


def png(seed, tmp_path):
    pixels = np.random.default_rng(seed).integers(0, 256, [4, 6, 3], np.uint8)
    path = tmp_path / "scratch.png"
    Image.fromarray(pixels).save(path)
    return pixels, path.read_bytes()


def example(**features):
    """A serialised tf.train.Example; `__` in a name stands for `/`."""

    def feature(value):
        if isinstance(value, bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))

    named = {name.replace("__", "/"): feature(value) for name, value in features.items()}
    return tf.train.Example(features=tf.train.Features(feature=named)).SerializeToString()


def write_shard(path, *records):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)


@pytest.fixture
def shards(tmp_path):
    """A folder for shards, and six images as (pixels, encoded)."""
    place = tmp_path / "shards"
    place.mkdir()
    return place, [png(seed, tmp_path) for seed in range(6)]


def test_shards_of_a_split_are_read_one_after_the_other(shards, read_all):
    place, images = shards
    write_shard(place / "train-00001-of-00002.tfrecord", *(example(image__encoded=e) for _, e in images[3:5]))
    write_shard(place / "train-00000-of-00002.tfrecord", *(example(image__encoded=e) for _, e in images[:3]))
    write_shard(place / "val-00000-of-00001.tfrecord", example(image__encoded=images[5][1]))
    source = open_source("tfrecord", "train", [place])
    assert (source.name, source.split, source.count, source.label_kind) == ("tfrecord", "train", None, "none")
    for _ in range(2):
        pixels, labels = read_all(source)
        np.testing.assert_array_equal(pixels, [original for original, _ in images[:5]])
        assert labels is None
    np.testing.assert_array_equal(read_all(open_source("tfrecord", "val", [place]))[0], [images[5][0]])
    assert source.where(3) == "image 3 of tfrecord train"


def test_train_is_the_split_to_pre_train_on(shards):
    place, images = shards
    for name in ("test.tfrecord", "val.tfrecord", "train.tfrecord", "more.tfrecords"):
        write_shard(place / name, example(image=images[0][1]))
    assert split_names("tfrecord", [place]) == ["train", "all", "val", "test"]
    assert open_source("tfrecord", None, [place]).split == "train"


def test_the_split_may_stand_behind_the_name_of_the_data_set(shards):
    place, images = shards
    for name in ("flowers-train.tfrecord-00000-of-00001", "flowers-test.tfrecord-00000-of-00001"):
        write_shard(place / name, example(image=images[0][1]))
    assert split_names("tfrecord", [place]) == ["train", "test"]


def test_shards_of_no_split_are_all_and_other_files_are_not_read(shards, read_all):
    place, images = shards
    (place / "readme.txt").write_text("no shard")
    write_shard(place / "b.tfrecord", example(image=images[1][1]))
    write_shard(place / "a.tfrecord", example(image=images[0][1]))
    source = open_source("tfrecord", None, [place])
    assert source.split == "all"
    np.testing.assert_array_equal(read_all(source)[0], [images[0][0], images[1][0]])


def test_labels_come_with_their_names(shards, read_all):
    place, images = shards
    records = [example(image__encoded=e, image__class__label=i % 3) for i, (_, e) in enumerate(images)]
    write_shard(place / "train.tfrecord", *records)
    (place / "labels.txt").write_bytes(b"cat\r\nguide dog \r\nhorse\r\n\r\n")
    source = open_source("tfrecord", None, [place])
    assert source.label_kind == "class"
    assert source.label_names == ("cat", "guide dog", "horse")
    assert source.notes == ()
    pixels, labels = read_all(source)
    np.testing.assert_array_equal(pixels, [original for original, _ in images])
    assert labels == [0, 1, 2, 0, 1, 2]


def test_labels_without_names_are_left_out_with_a_note(shards, read_all):
    place, images = shards
    write_shard(place / "train.tfrecord", example(image=images[0][1], label=1))
    source = open_source("tfrecord", None, [place])
    assert (source.label_kind, source.label_names) == ("none", ())
    (note,) = source.notes
    assert "labels are not used" in note and str(place / "labels.txt") in note
    assert read_all(source)[1] is None


def test_names_without_labels_are_not_used(shards):
    place, images = shards
    write_shard(place / "train.tfrecord", example(image=images[0][1]))
    (place / "labels.txt").write_text("cat\ndog\n")
    source = open_source("tfrecord", None, [place])
    assert (source.label_kind, source.label_names, source.notes) == ("none", (), ())


@pytest.mark.parametrize("key", ["image__encoded", "image", "image_raw", "encoded", "jpeg", "png"])
def test_the_usual_names_for_the_image_are_known(shards, read_all, key):
    place, images = shards
    write_shard(place / "train.tfrecord", example(**{key: images[0][1], "filename": b"a.png"}))
    np.testing.assert_array_equal(read_all(open_source("tfrecord", None, [place]))[0], [images[0][0]])


@pytest.mark.parametrize("ending", ["gz", "gzip"])
def test_compressed_shards_are_read(shards, read_all, tmp_path, ending):
    place, images = shards
    write_shard(tmp_path / "plain", *(example(image=e) for _, e in images))
    (place / f"train.tfrecord.{ending}").write_bytes(gzip.compress((tmp_path / "plain").read_bytes()))
    pixels, _ = read_all(open_source("tfrecord", None, [place]))
    np.testing.assert_array_equal(pixels, [original for original, _ in images])


@pytest.mark.parametrize("name", ["train.tfrecord", "train.tfrecord.gz"])
def test_a_file_that_is_no_tfrecord_is_refused(shards, refusal, name):
    place, _ = shards
    (place / name).write_bytes(b"this is not what the name says, though it is long enough")
    message = refusal(open_source, "tfrecord", None, [place])
    assert f"{place / name}: not a TFRecord file, or damaged" in message


def test_a_truncated_shard_is_refused(shards, refusal):
    place, images = shards
    path = place / "train.tfrecord"
    write_shard(path, example(image=images[0][1]))
    path.write_bytes(path.read_bytes()[:-20])
    assert f"{path}: not a TFRecord file, or damaged" in refusal(open_source, "tfrecord", None, [place])


def test_records_that_are_no_examples_are_refused(shards, refusal):
    place, _ = shards
    write_shard(place / "train.tfrecord", b"\xff\xff not a protocol buffer")
    message = refusal(open_source, "tfrecord", None, [place])
    assert f"{place / 'train.tfrecord'}" in message and "tf.train.Example" in message


def test_an_empty_shard_is_refused(shards, refusal):
    place, _ = shards
    write_shard(place / "train.tfrecord")
    assert f"{place / 'train.tfrecord'}: holds no record" in refusal(open_source, "tfrecord", None, [place])


def test_records_without_an_image_are_refused_with_what_they_hold(shards, refusal):
    place, _ = shards
    write_shard(place / "train.tfrecord", example(text=b"hello", label=1))
    message = refusal(open_source, "tfrecord", None, [place])
    assert "no encoded image under image/encoded, image," in message
    assert set(message.split("found ")[1].split(", ")) == {"text", "label"}


def test_a_folder_without_shards_is_refused(shards, refusal):
    place, _ = shards
    (place / "train.png").touch()
    message = refusal(open_source, "tfrecord", None, [place])
    assert f"--data_dir={place}: no file with 'tfrecord' in its name" in message


def test_no_directory_is_refused(refusal):
    assert "--dataset=tfrecord needs --data_dir" in refusal(open_source, "tfrecord")
