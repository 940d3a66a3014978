import os
import pathlib
import time

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from lci_tf.data import open_source, split_names
from lci_tf.data.sets import folder


def touch(place, *names):
    for name in names:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).touch()


def names_below(place, paths):
    return [pathlib.Path(path).relative_to(place).as_posix() for path in paths]


def test_a_flat_folder_is_one_split_without_labels(tmp_path, write_png, read_all):
    originals = [write_png(name) for name in ("a.png", "b.JPG", "c.jpeg")]
    source = open_source("folder", None, [tmp_path])
    assert (source.name, source.split, source.count, source.label_kind) == ("folder", "all", 3, "none")
    assert source.label_names == () and source.notes == ()
    images, labels = read_all(source)
    np.testing.assert_array_equal(images, originals)
    assert labels is None


def test_folders_are_classes_in_alphabetical_order(tmp_path, write_png, read_all):
    first_dog, cat, second_dog = write_png("dog/1.png"), write_png("cat/1.png"), write_png("dog/2.png")
    source = open_source("folder", None, [tmp_path])
    assert source.label_kind == "class"
    assert source.label_names == ("cat", "dog")
    images, labels = read_all(source)
    np.testing.assert_array_equal(images, [cat, first_dog, second_dog])
    assert labels == [0, 1, 1]
    assert source.where(0) == str(tmp_path / "cat" / "1.png")


def test_rows_come_in_the_requested_order(tmp_path):
    touch(tmp_path, "a/1.png", "b/2.png", "c/3.png")
    rows = open_source("folder", None, [tmp_path]).rows(np.array([2, 0, 2], np.int64))
    assert names_below(tmp_path, [path.decode() for path in rows["image"].numpy()]) == ["c/3.png", "a/1.png", "c/3.png"]
    assert rows["label"].numpy().tolist() == [2, 0, 2]


def test_deeper_folders_take_the_class_of_the_first_level(tmp_path):
    touch(tmp_path, "cat/2024/may/1.jpg", "cat/2.jpg", "dog/2024/3.jpg")
    source = open_source("folder", None, [tmp_path])
    assert source.label_names == ("cat", "dog")
    labels = dict(zip(names_below(tmp_path, source.paths), source.labels.tolist(), strict=True))
    assert labels == {"cat/2024/may/1.jpg": 0, "cat/2.jpg": 0, "dog/2024/3.jpg": 1}


@pytest.mark.parametrize("names", [("cat/1.jpg", "cat/2.jpg"), ("cat/1.jpg", "dog/1.jpg", "beside.jpg")])
def test_one_folder_or_an_image_beside_the_folders_means_no_labels(tmp_path, names):
    touch(tmp_path, *names)
    source = open_source("folder", None, [tmp_path])
    assert (source.count, source.label_kind, source.label_names, source.labels) == (len(names), "none", (), None)


def test_a_folder_without_images_is_no_class(tmp_path):
    touch(tmp_path, "cat/1.jpg", "dog/1.jpg", "notes/readme.txt")
    assert open_source("folder", None, [tmp_path]).label_names == ("cat", "dog")


def test_train_val_and_test_are_splits_and_train_is_the_default(tmp_path):
    touch(tmp_path, "val/cat/1.jpg", "val/dog/2.jpg", "test/3.jpg", "train/cat/4.jpg", "train/dog/5.jpg")
    assert split_names("folder", [tmp_path]) == ["train", "val", "test"]
    source = open_source("folder", None, [tmp_path])
    assert (source.split, source.label_names) == ("train", ("cat", "dog"))
    assert names_below(tmp_path, source.paths) == ["train/cat/4.jpg", "train/dog/5.jpg"]
    assert names_below(tmp_path, open_source("folder", "test", [tmp_path]).paths) == ["test/3.jpg"]


def test_folders_next_to_splits_are_reported_because_train_may_be_a_class(tmp_path):
    touch(tmp_path, "train/1.jpg", "bus/2.jpg", "car/3.jpg", ".cache/4.jpg")
    source = open_source("folder", None, [tmp_path])
    assert source.count == 1
    (note,) = source.notes
    assert "train taken for splits" in note and note.endswith("ignored: bus, car")


def test_refused_formats_stay_and_other_files_are_passed_over_with_a_note(tmp_path):
    touch(tmp_path, "a.webp", "b.TIF", "c.jpg", "readme.txt", "labels.csv", "noending")
    source = open_source("folder", None, [tmp_path])
    assert names_below(tmp_path, source.paths) == ["a.webp", "b.TIF", "c.jpg"]
    (note,) = source.notes
    assert note.startswith(f"3 files in {tmp_path}") and note.endswith(str(tmp_path / "labels.csv"))


def test_hidden_files_and_folders_are_not_looked_at(tmp_path):
    touch(tmp_path, ".hidden.jpg", "._a.jpg", ".thumbnails/b.jpg", ".DS_Store", "a.jpg")
    images, others, _ = folder.list_images(tmp_path)
    assert names_below(tmp_path, images) == ["a.jpg"]
    assert others == []
    assert open_source("folder", None, [tmp_path]).notes == ()


def test_links_to_folders_are_followed_but_not_in_circles(tmp_path):
    touch(tmp_path, "elsewhere/1.jpg", "photos/2.jpg")
    (tmp_path / "photos" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "photos" / "back").symlink_to(tmp_path / "photos")
    images, _, _ = folder.list_images(tmp_path / "photos")
    assert names_below(tmp_path, images) == ["photos/2.jpg", "photos/linked/1.jpg"]


def test_what_is_neither_file_nor_folder_is_passed_over_with_a_line(tmp_path, write_png):
    """A pipe would be waited for without end; a link to itself would stop the listing."""
    write_png("photos/a.png")
    photos = tmp_path / "photos"
    (photos / "itself.jpg").symlink_to(photos / "itself.jpg")
    (photos / "itself").symlink_to("itself")
    os.mkfifo(photos / "pipe.jpg")
    (photos / "linked_pipe.jpg").symlink_to(photos / "pipe.jpg")
    source = open_source("folder", None, [photos])
    assert names_below(photos, source.paths) == ["a.png"]
    (note,) = source.notes
    assert note.startswith(f"4 entries in {photos} are neither files nor folders") and note.endswith("/itself")


def test_links_out_of_the_folder_are_followed_and_a_dangling_one_is_missed_as_an_image(tmp_path):
    touch(tmp_path, "elsewhere/1.jpg", "photos/2.jpg")
    (tmp_path / "photos" / "linked.jpg").symlink_to(tmp_path / "elsewhere" / "1.jpg")
    (tmp_path / "photos" / "gone.jpg").symlink_to(tmp_path / "elsewhere" / "none.jpg")
    source = open_source("folder", None, [tmp_path / "photos"])
    assert names_below(tmp_path, source.paths) == ["photos/2.jpg", "photos/gone.jpg", "photos/linked.jpg"]
    assert "No such file" in source.why_unreadable(source.where(1).encode())


def test_names_need_not_be_ascii(tmp_path, write_png, read_all):
    original = write_png("Überfahrt nach Trøndelag/写真 1.png")
    images, _ = read_all(open_source("folder", None, [tmp_path]))
    np.testing.assert_array_equal(images, [original])


def test_no_directory_is_refused(refusal):
    assert "--dataset=folder needs --data_dir" in refusal(open_source, "folder")


def test_an_empty_folder_is_refused(tmp_path, refusal):
    message = refusal(open_source, "folder", None, [tmp_path])
    assert f"--data_dir: no images in {tmp_path}" in message
    assert ".jpg" in message and message.endswith("found nothing")


def test_a_folder_with_only_other_files_is_refused_by_naming_one(tmp_path, refusal):
    touch(tmp_path, "movie.mp4", "sub/readme.txt")
    message = refusal(open_source, "folder", None, [tmp_path])
    assert f"no images in {tmp_path}" in message
    assert f"found 2 other files, such as {tmp_path / 'movie.mp4'}" in message


def test_an_empty_split_is_refused_when_it_is_opened(tmp_path, refusal):
    touch(tmp_path, "train/1.jpg")
    (tmp_path / "val").mkdir()
    assert open_source("folder", "train", [tmp_path]).count == 1
    assert f"no images in {tmp_path / 'val'}" in refusal(open_source, "folder", "val", [tmp_path])


def test_a_file_that_goes_away_is_named_as_such(tmp_path):
    touch(tmp_path, "a.jpg")
    source = open_source("folder", None, [tmp_path])
    (tmp_path / "a.jpg").unlink()
    assert "No such file" in source.why_unreadable(source.where(0).encode())


@pytest.mark.parametrize("count", [5_000, pytest.param(300_000, marks=pytest.mark.slow)])
def test_many_files_in_one_folder_list_within_seconds(tmp_path, count):
    place = os.open(tmp_path, os.O_RDONLY)
    for i in range(count):
        os.close(os.open(f"{i:06}.jpg", os.O_CREAT | os.O_WRONLY, dir_fd=place))
    os.close(place)

    start = time.monotonic()
    images, others, _ = folder.list_images(tmp_path)
    assert time.monotonic() - start < 10
    assert (len(images), len(others)) == (count, 0)
    assert images[-1] == str(tmp_path / f"{count - 1:06}.jpg")

    source = open_source("folder", None, [tmp_path])
    assert (source.count, source.label_kind) == (count, "none")
    start = time.monotonic()
    assert len(source.fingerprint["contents"]) == 16
    assert time.monotonic() - start < 10


def test_file_names_need_not_be_utf_8(tmp_path):
    name = os.fsdecode(b"caf\xe9.png")
    Image.new("RGB", (40, 40), (1, 2, 3)).save(tmp_path / name)
    source = folder.open_folder(tmp_path, "all")
    contents = source.read(source.rows(tf.constant([0], tf.int64))["image"][0])
    assert tf.io.decode_png(contents)[0, 0].numpy().tolist() == [1, 2, 3]
