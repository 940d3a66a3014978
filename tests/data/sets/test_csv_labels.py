import numpy as np
import pytest

from lci_tf.data import labelled
from lci_tf.data.sets import csv_labels


@pytest.fixture
def folder(tmp_path, write_png):
    for name in ("photos/1.png", "photos/2.png", "photos/3.png"):
        write_png(name)

    def write(text, name="labels.csv"):
        (tmp_path / name).write_text(text)
        return tmp_path

    return write


def test_names_separated_by_semicolons(folder, read_all):
    place = folder("file,labels\nphotos/1.png,cat; dog\nphotos/2.png,\nphotos/3.png,dog\n")
    splits = csv_labels.find(place)
    source = splits["all"]()
    images, labels = read_all(source)
    assert list(splits) == ["all"] and source.label_kind == "multi-label" and source.label_names == ("cat", "dog")
    assert labels == [[1, 1], [0, 0], [0, 1]] and len(images) == 3


def test_a_column_for_each_class_and_the_split(folder):
    place = folder(
        "file,split,cat,dog\nphotos/1.png,test,1,0\nphotos/2.png,train,0,\nphotos/3.png,train,1,1\n", "x.csv"
    )
    train, test = labelled.open_labelled("csv", [place], kinds=("multi-label",))
    assert (train.split, train.count, test.split, test.count) == ("train", 2, "test", 1)
    np.testing.assert_array_equal(train.labels, [[0, -1], [1, 1]])  # nobody looked: does not count
    assert test.paths == [str(place / "photos/1.png")]


def test_a_spreadsheets_mark_at_the_beginning_is_not_part_of_a_name(folder):
    place = folder("\ufefffile,labels\nphotos/1.png,cat\n")
    assert csv_labels.find(place)["all"]().count == 1


MISTAKES = {
    "line 2: there is no image {}/photos/9.png": "file,labels\nphotos/9.png,cat\n",
    "line 3: expected 1, 0 or nothing for dog, got 'yes'": "file,cat,dog\nphotos/1.png,1,0\nphotos/2.png,1,yes\n",
    "line 2: expected 3 values, as in the first line": "file,cat,dog\nphotos/1.png,1\n",
    "expected a column file, and labels or a column per class, got image, cat": "image,cat\nphotos/1.png,1\n",
    "labels.csv: lists no image": "file,cat\n",
    "its column labels is empty": "file,labels\nphotos/1.png,\n",
    "has no labels; expected a column labels, or a column for each class": "file,split\nphotos/1.png,train\n",
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_named(folder, refusal, message):
    place = folder(MISTAKES[message])
    assert message.format(place) in refusal(csv_labels.find, place)


def test_which_table_must_be_clear(folder, refusal, tmp_path):
    assert "has 0 CSV files" in refusal(csv_labels.find, tmp_path)
    folder("file,labels\n", "a.csv")
    assert "has 2 CSV files; expected one, or one named labels.csv" in refusal(csv_labels.find, folder("", "b.csv"))
    assert "--dataset=csv needs --data_dir" in refusal(csv_labels.find, None)
