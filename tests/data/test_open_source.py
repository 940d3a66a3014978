import numpy as np
import pytest

from lci_tf.config import names
from lci_tf.data import open_source, split_names


def touch(place, *names):
    for name in names:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).touch()


def test_an_unknown_data_set_is_refused_with_those_there_are(refusal):
    message = refusal(open_source, "stl11")
    assert message.startswith("--dataset=stl11: unknown")
    for name in (*names.DATASETS, "tfds:NAME"):
        assert name in message


def test_an_unknown_split_is_refused_with_those_there_are(tmp_path, refusal):
    touch(tmp_path, "train/1.jpg", "val/1.jpg")
    assert refusal(open_source, "folder", "tset", [tmp_path]) == f"--split=tset: folder in {tmp_path} has train, val"


@pytest.mark.parametrize("dataset", [*names.DATASETS, "tfds:mnist"])
def test_a_missing_directory_is_named(tmp_path, refusal, dataset):
    missing = tmp_path / "missing"
    assert refusal(open_source, dataset, None, [missing]) == f"--data_dir={missing}: no such folder"


def test_a_file_in_place_of_a_directory_is_refused(tmp_path, refusal):
    touch(tmp_path, "a.jpg")
    assert "a.jpg: is a file; expected a folder" in refusal(open_source, "folder", None, [tmp_path / "a.jpg"])


def test_a_folder_with_a_comma_in_its_name_must_be_quoted(tmp_path, refusal):
    for name in ("sea, sand", "sea,sand"):
        touch(tmp_path, f"{name}/1.png")
        parts = [part.strip() for part in f"{tmp_path}/{name}".split(",")]  # as absl does
        assert refusal(open_source, "folder", None, parts).endswith(f"--data_dir='\"{tmp_path}/{name}\"'")
        assert open_source("folder", None, [tmp_path / name]).count == 1


@pytest.mark.parametrize("as_given", [lambda p: p, str, lambda p: [str(p)], lambda p: (p,)])
def test_a_directory_may_be_a_path_or_a_string_or_a_list_of_these(tmp_path, as_given):
    touch(tmp_path, "a.jpg")
    assert open_source("folder", None, as_given(tmp_path)).count == 1


def test_a_directory_may_begin_with_a_tilde(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    touch(tmp_path, "photos/a.jpg")
    assert open_source("folder", None, ["~/photos"]).where(0) == str(tmp_path / "photos" / "a.jpg")


def test_several_folders_are_joined_in_the_order_given(tmp_path, write_png, read_all):
    originals = [write_png("b/1.png"), write_png("b/2.png"), write_png("a/3.png")]
    source = open_source("folder", None, [tmp_path / "b", tmp_path / "a"])
    assert (source.name, source.split, source.count, source.label_kind) == ("folder", "all", 3, "none")
    images, labels = read_all(source)
    np.testing.assert_array_equal(images, originals)
    assert labels is None
    assert source.where(2) == str(tmp_path / "a" / "3.png")


def test_labels_are_kept_where_the_folders_have_the_same_names(tmp_path, write_png, read_all):
    for name in ("one/cat/1.png", "one/dog/2.png", "two/cat/3.png", "two/dog/4.png", "two/dog/5.png"):
        write_png(name)
    source = open_source("folder", None, [tmp_path / "one", tmp_path / "two"])
    assert (source.count, source.label_kind, source.label_names) == (5, "class", ("cat", "dog"))
    assert read_all(source)[1] == [0, 1, 0, 1, 1]


@pytest.mark.parametrize("other", [("cat/3.png", "horse/4.png"), ("3.png", "4.png"), ("a/3.png", "b/4.png", "c/5.png")])
@pytest.mark.parametrize("reverse", [False, True])
def test_labels_are_dropped_where_names_differ(tmp_path, other, reverse):
    touch(tmp_path / "one", "cat/1.png", "dog/2.png")
    touch(tmp_path / "two", *other)
    folders = [tmp_path / "two", tmp_path / "one"] if reverse else [tmp_path / "one", tmp_path / "two"]
    source = open_source("folder", None, folders)
    assert (source.count, source.label_kind, source.label_names) == (2 + len(other), "none", ())
    assert list(source.rows(np.array([0], np.int64))) == ["image"]


def test_notes_of_all_folders_are_kept(tmp_path):
    touch(tmp_path, "one/1.png", "one/a.txt", "two/2.png", "two/b.txt")
    notes = open_source("folder", None, [tmp_path / "one", tmp_path / "two"]).notes
    assert len(notes) == 2
    assert notes[0].endswith("a.txt") and notes[1].endswith("b.txt")


def test_one_bad_folder_among_several_is_named(tmp_path, refusal):
    touch(tmp_path, "one/1.png")
    (tmp_path / "empty").mkdir()
    assert f"no images in {tmp_path / 'empty'}" in refusal(
        open_source, "folder", None, [tmp_path / "one", tmp_path / "empty"]
    )


def test_only_folders_of_images_can_be_joined(tmp_path, refusal):
    for name in ("one", "two"):
        touch(tmp_path, f"{name}/unlabeled_X.bin")
        (tmp_path / name / "unlabeled_X.bin").write_bytes(bytes(3 * 96 * 96))
    message = refusal(open_source, "stl10", None, [tmp_path / "one", tmp_path / "two"])
    assert message.startswith("--data_dir: only folders of image files can be joined") and "stl10" in message


def test_the_first_split_name_is_the_default(tmp_path):
    touch(tmp_path, "train/1.png", "test/2.png")
    assert split_names("folder", [tmp_path])[0] == open_source("folder", None, [tmp_path]).split == "train"


def test_splits_are_opened_only_when_requested(tmp_path):
    (tmp_path / "unlabeled_X.bin").write_bytes(bytes(3 * 96 * 96))
    (tmp_path / "train_X.bin").write_bytes(b"truncated")
    assert open_source("stl10", None, [tmp_path]).count == 1
