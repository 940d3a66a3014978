import numpy as np
import pytest

from lci_tf.data import open_source, split_names

NAMES = "Bald Smiling Young"
VALUES = {"000001.jpg": "-1  1  1", "000002.jpg": " 1 -1 -1", "000003.jpg": "-1 -1  1"}
LABELS = {"000001.jpg": [0, 1, 1], "000002.jpg": [1, 0, 0], "000003.jpg": [0, 0, 1]}
PARTITION = "000001.jpg 2\n000002.jpg 0\n000003.jpg 0\n"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def official(tmp_path, write_png):
    """The official files, and the pixels of their images by name."""
    lines = [str(len(VALUES)), NAMES, *(f"{file} {values}" for file, values in VALUES.items())]
    write(tmp_path / "list_attr_celeba.txt", "\n".join(lines) + "\n")
    write(tmp_path / "list_eval_partition.txt", PARTITION)
    return {file: write_png(f"img_align_celeba/{file}") for file in VALUES}


def test_official_files_give_images_with_their_attributes_by_split(tmp_path, official, read_all):
    source = open_source("celeb_a", "train", [tmp_path])
    assert (source.name, source.split, source.count, source.label_kind) == ("celeb_a", "train", 2, "multi-label")
    assert source.label_names == ("Bald", "Smiling", "Young")
    images, labels = read_all(source)
    np.testing.assert_array_equal(images, [official["000002.jpg"], official["000003.jpg"]])
    assert labels == [LABELS["000002.jpg"], LABELS["000003.jpg"]]
    assert source.labels.dtype == np.int8

    images, labels = read_all(open_source("celeb_a", "test", [tmp_path]))
    np.testing.assert_array_equal(images, [official["000001.jpg"]])
    assert labels == [LABELS["000001.jpg"]]


def test_the_split_to_pre_train_on_is_train_and_splits_without_images_are_not_offered(tmp_path, official):
    assert split_names("celeb_a", [tmp_path]) == ["train", "test"]
    assert open_source("celeb_a", None, [tmp_path]).split == "train"


def test_all_three_official_splits_have_their_numbers(tmp_path, official):
    write(tmp_path / "list_eval_partition.txt", "000001.jpg 0\n000002.jpg 1\n000003.jpg 2\n")
    for split, file in {"train": "000001.jpg", "val": "000002.jpg", "test": "000003.jpg"}.items():
        assert open_source("celeb_a", split, [tmp_path]).where(0) == str(tmp_path / "img_align_celeba" / file)


def test_without_a_partition_all_images_are_one_split(tmp_path, official, read_all):
    (tmp_path / "list_eval_partition.txt").unlink()
    source = open_source("celeb_a", None, [tmp_path])
    assert source.split == "all"
    assert read_all(source)[1] == list(LABELS.values())


def test_the_folders_of_the_official_drive_are_known(tmp_path, official):
    (tmp_path / "drive").mkdir()
    for name, folder in {
        "list_attr_celeba.txt": "Anno",
        "list_eval_partition.txt": "Eval",
        "img_align_celeba": "Img",
    }.items():
        (tmp_path / "drive" / folder).mkdir()
        (tmp_path / name).rename(tmp_path / "drive" / folder / name)
    source = open_source("celeb_a", "test", [tmp_path / "drive"])
    assert source.where(0) == str(tmp_path / "drive" / "Img" / "img_align_celeba" / "000001.jpg")


@pytest.mark.parametrize("line", ["000003.jpg -1 1", "000003.jpg -1 1 1 1", "000003.jpg -1 1 0", "000003.jpg"])
def test_a_malformed_line_is_named_by_its_number(tmp_path, official, refusal, line):
    path = tmp_path / "list_attr_celeba.txt"
    path.write_text(path.read_text().replace("000003.jpg -1 -1  1", line))
    message = refusal(open_source, "celeb_a", "train", [tmp_path])
    assert f"{path}, line 5: expected 3 values of 1 or -1" in message and repr(line) in message


def test_blank_lines_are_passed_over(tmp_path, official):
    for name in ("list_attr_celeba.txt", "list_eval_partition.txt"):
        (tmp_path / name).write_text((tmp_path / name).read_text() + "\n\n")
    assert open_source("celeb_a", "train", [tmp_path]).count == 2


@pytest.mark.parametrize("text", ["", "3\n", f"0\n{NAMES}\n"])
def test_a_list_that_ends_too_early_is_refused(tmp_path, official, refusal, text):
    write(tmp_path / "list_attr_celeba.txt", text)
    message = refusal(open_source, "celeb_a", None, [tmp_path])
    assert str(tmp_path / "list_attr_celeba.txt") in message and "a line of attribute names" in message


@pytest.mark.parametrize("line", ["000002.jpg", "000002.jpg 3", "000002.jpg 0 1", "000002.jpg train"])
def test_a_malformed_partition_is_named_by_its_line(tmp_path, official, refusal, line):
    write(tmp_path / "list_eval_partition.txt", PARTITION.replace("000002.jpg 0", line))
    message = refusal(open_source, "celeb_a", None, [tmp_path])
    assert f"{tmp_path / 'list_eval_partition.txt'}, line 2: expected a file and 0, 1 or 2" in message


def test_a_partition_of_other_images_is_refused(tmp_path, official, refusal):
    write(tmp_path / "list_eval_partition.txt", "other.jpg 0\n")
    message = refusal(open_source, "celeb_a", None, [tmp_path])
    assert f"{tmp_path / 'list_eval_partition.txt'}: has none of the images" in message


def test_missing_images_are_refused_with_the_places_looked_at(tmp_path, official, refusal):
    (tmp_path / "img_align_celeba").rename(tmp_path / "faces")
    message = refusal(open_source, "celeb_a", None, [tmp_path])
    assert f"{tmp_path}: no 000001.jpg in img_align_celeba" in message


def test_a_table_gives_images_with_their_attributes_by_split(tmp_path, write_png, read_all):
    originals = [write_png("images/1.png"), write_png("images/2.png"), write_png("images/3.png")]
    rows = "train,images/1.png,7,1,0\nval,images/2.png,8,1,1\ntrain,images/3.png,9,0,1\n"
    write(tmp_path / "attributes.csv", "split,file,identity,Smiling,Young\n" + rows)
    assert split_names("celeb_a", [tmp_path]) == ["train", "val"]
    source = open_source("celeb_a", None, [tmp_path])
    assert (source.split, source.count, source.label_kind) == ("train", 2, "multi-label")
    assert source.label_names == ("Smiling", "Young")
    images, labels = read_all(source)
    np.testing.assert_array_equal(images, [originals[0], originals[2]])
    assert labels == [[1, 0], [0, 1]]
    assert read_all(open_source("celeb_a", "val", [tmp_path]))[1] == [[1, 1]]


def test_train_is_the_split_to_pre_train_on_wherever_it_is_in_the_table(tmp_path):
    write(tmp_path / "attributes.csv", "split,file,Smiling\ntest,1.png,1\nval,2.png,1\ntrain,3.png,0\n")
    assert open_source("celeb_a", None, [tmp_path]).split == "train"


@pytest.mark.parametrize("header", ["file,Smiling", "split,Smiling", "split,file", "split;file;Smiling", ""])
def test_a_table_without_its_columns_is_refused(tmp_path, refusal, header):
    write(tmp_path / "attributes.csv", f"{header}\n" + ",".join("1" * (header.count(",") + 1)) + "\n")
    message = refusal(open_source, "celeb_a", None, [tmp_path])
    assert f"{tmp_path / 'attributes.csv'}: expected columns split, file and one per attribute" in message


def test_a_table_without_lines_is_refused(tmp_path, refusal):
    write(tmp_path / "attributes.csv", "split,file,Smiling\n")
    assert "attributes.csv: lists no image" in refusal(open_source, "celeb_a", None, [tmp_path])


@pytest.mark.parametrize("row", ["train,2.png,1,2", "train,2.png,1", "train,2.png,1,0,1", "train,2.png,1,"])
def test_a_malformed_line_of_a_table_is_named_by_its_number(tmp_path, refusal, row):
    write(tmp_path / "attributes.csv", f"split,file,Smiling,Young\ntrain,1.png,1,0\n{row}\n")
    message = refusal(open_source, "celeb_a", None, [tmp_path])
    assert f"{tmp_path / 'attributes.csv'}, line 3: expected 0 or 1" in message


def test_a_directory_without_attributes_is_refused(tmp_path, write_png, refusal):
    write_png("img_align_celeba/000001.jpg")
    message = refusal(open_source, "celeb_a", None, [tmp_path])
    assert f"--data_dir={tmp_path}: no attributes there" in message
    assert "list_attr_celeba.txt" in message and "attributes.csv" in message
