import numpy as np
import pytest

from lci_tf.data import open_source, split_names
from lci_tf.data.sets import stl10

SIDE = 96
FILES = {"unlabelled": "unlabeled_X.bin", "train": "train_X.bin", "test": "test_X.bin"}
CLASSES = ["airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck"]


def random_images(count, seed=0):
    return np.random.default_rng(seed).integers(0, 256, [count, SIDE, SIDE, 3], np.uint8)


def as_official_bytes(images):
    """As Coates's page says: channel after channel, each column by column."""
    stored = bytearray()
    for image in images:
        for channel in range(3):
            for column in range(SIDE):
                for row in range(SIDE):
                    stored.append(image[row, column, channel])
    return bytes(stored)


def write_split(place, split, images, labels=None):
    place.mkdir(parents=True, exist_ok=True)
    (place / FILES[split]).write_bytes(as_official_bytes(images))
    if labels is not None:
        (place / f"{split}_y.bin").write_bytes(bytes(labels))


def test_binaries_come_out_pixel_by_pixel(tmp_path, read_all):
    originals = random_images(3)
    write_split(tmp_path, "train", originals, labels=[1, 10, 4])
    source = open_source("stl10", "train", [tmp_path])
    assert (source.name, source.split, source.count, source.is_encoded) == ("stl10", "train", 3, False)
    images, labels = read_all(source)
    np.testing.assert_array_equal(images, originals)
    assert labels == [0, 9, 3]
    assert source.label_kind == "class"
    assert list(source.label_names) == CLASSES


def test_rows_of_binaries_come_in_the_requested_order_with_a_known_shape(tmp_path):
    originals = random_images(3)
    write_split(tmp_path, "test", originals, labels=[1, 2, 3])
    rows = open_source("stl10", "test", [tmp_path]).rows(np.array([2, 0], np.int64))
    assert rows["image"].shape == [2, SIDE, SIDE, 3]
    np.testing.assert_array_equal(rows["image"], originals[[2, 0]])
    assert rows["label"].numpy().tolist() == [2, 0]


def test_unlabelled_is_the_split_to_pre_train_on_and_has_no_labels(tmp_path, read_all):
    originals = random_images(2)
    write_split(tmp_path, "train", random_images(1, seed=1), labels=[1])
    write_split(tmp_path, "test", random_images(1, seed=2), labels=[1])
    write_split(tmp_path, "unlabelled", originals)
    assert split_names("stl10", [tmp_path]) == ["unlabelled", "train", "test"]
    source = open_source("stl10", None, [tmp_path])
    assert (source.split, source.count, source.label_kind, source.label_names) == ("unlabelled", 2, "none", ())
    images, labels = read_all(source)
    np.testing.assert_array_equal(images, originals)
    assert labels is None


def test_binaries_are_found_in_the_folder_that_the_archive_unpacks_to(tmp_path):
    write_split(tmp_path / "stl10_binary", "unlabelled", random_images(1))
    assert open_source("stl10", None, [tmp_path]).count == 1


def test_only_the_splits_that_are_there_are_offered(tmp_path, refusal):
    write_split(tmp_path, "test", random_images(1), labels=[1])
    assert split_names("stl10", [tmp_path]) == ["test"]
    assert refusal(open_source, "stl10", "train", [tmp_path]) == f"--split=train: stl10 in {tmp_path} has test"


@pytest.mark.parametrize("size", [0, 1, 3 * SIDE * SIDE - 1, 2 * 3 * SIDE * SIDE + 5])
def test_truncated_binaries_are_refused(tmp_path, refusal, size):
    (tmp_path / "unlabeled_X.bin").write_bytes(bytes(size))
    message = refusal(open_source, "stl10", None, [tmp_path])
    assert str(tmp_path / "unlabeled_X.bin") in message
    assert f"{size:,} bytes" in message and "truncated" in message


def test_a_missing_label_file_is_named(tmp_path, refusal):
    write_split(tmp_path, "train", random_images(1))
    message = refusal(open_source, "stl10", "train", [tmp_path])
    assert f"{tmp_path / 'train_y.bin'}: no such file" in message


def test_a_label_file_of_other_length_is_refused_with_both_counts(tmp_path, refusal):
    write_split(tmp_path, "test", random_images(2), labels=[1, 2, 3])
    message = refusal(open_source, "stl10", "test", [tmp_path])
    assert f"{tmp_path / 'test_X.bin'} has 2 images" in message and "test_y.bin has 3 labels" in message


@pytest.mark.parametrize(("labels", "came"), [([0, 9], "0…9"), ([1, 11], "1…11")])
def test_labels_out_of_range_are_refused(tmp_path, refusal, labels, came):
    write_split(tmp_path, "train", random_images(2), labels=labels)
    message = refusal(open_source, "stl10", "train", [tmp_path])
    assert f"{tmp_path / 'train_y.bin'}: labels are {came}" in message and "1…10" in message


def test_folds_are_read_as_image_numbers(tmp_path):
    folds = [np.random.default_rng(fold).permutation(5000)[:1000] for fold in range(10)]
    (tmp_path / "fold_indices.txt").write_text("".join(" ".join(map(str, fold)) + " \n" for fold in folds))
    np.testing.assert_array_equal(stl10.read_folds(tmp_path), folds)


def test_missing_folds_are_named(tmp_path, refusal):
    assert f"{tmp_path / 'fold_indices.txt'}: no such file" in refusal(stl10.read_folds, tmp_path)


def test_folds_that_are_no_numbers_are_refused(tmp_path, refusal):
    (tmp_path / "fold_indices.txt").write_text("0 1 2\n3 four 5\n")
    message = refusal(stl10.read_folds, tmp_path)
    assert str(tmp_path / "fold_indices.txt") in message and "four" in message


def test_class_folders_have_the_official_numbers(tmp_path, write_png, read_all):
    originals = [write_png(f"train/{name}/1.png") for name in CLASSES]
    source = open_source("stl10", "train", [tmp_path])
    assert (source.name, source.count, source.label_kind, list(source.label_names)) == ("stl10", 10, "class", CLASSES)
    images, labels = read_all(source)
    np.testing.assert_array_equal(images, originals)
    assert labels == list(range(10))


@pytest.mark.parametrize("spelling", ["unlabelled", "unlabeled"])
def test_a_folder_of_unlabelled_images_is_the_split_to_pre_train_on(tmp_path, write_png, spelling):
    write_png("train/airplane/1.png")
    write_png(f"{spelling}/1.png")
    assert split_names("stl10", [tmp_path]) == ["unlabelled", "train"]
    source = open_source("stl10", None, [tmp_path])
    assert (source.split, source.label_kind) == ("unlabelled", "none")
    assert source.where(0) == str(tmp_path / spelling / "1.png")


def test_unlabelled_images_are_enough(tmp_path, write_png):
    write_png("unlabelled/1.png")
    assert open_source("stl10", None, [tmp_path]).count == 1


def test_other_class_folders_are_refused(tmp_path, write_png, refusal):
    write_png("train/airplane/1.png")
    write_png("train/zebra/1.png")
    message = refusal(open_source, "stl10", "train", [tmp_path])
    assert str(tmp_path / "train") in message
    assert "classes are airplane, zebra" in message and ", ".join(CLASSES) in message


def test_a_directory_without_stl10_is_refused_with_what_was_expected(tmp_path, refusal):
    (tmp_path / "photo.jpg").touch()
    message = refusal(open_source, "stl10", None, [tmp_path])
    assert f"--data_dir={tmp_path}" in message
    assert "unlabeled_X.bin" in message and "train/airplane" in message and "tensorflow-datasets" in message
