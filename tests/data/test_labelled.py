import dataclasses

import numpy as np
import pytest
from PIL import Image

from lci_tf.data.labelled import few, hold_out, labels_of, open_any, open_images, open_labelled, open_one, stl10_folds
from lci_tf.data.sets import synthetic
from lci_tf.data.source import PixelArray


def scenes(count, seed):
    labels = np.arange(count, dtype=np.int64) % 10
    return PixelArray(name="synthetic", split=f"seed {seed}", count=count, label_kind="class",
                      label_names=synthetic.CLASSES, pixels=synthetic.draw(labels, seed), labels=labels)  # fmt: skip


def write_images(place, classes, count=2):
    for name in classes:
        (place / name).mkdir(parents=True)
        for i in range(count):
            Image.fromarray(np.zeros([8, 8, 3], np.uint8)).save(place / name / f"{i}.png")


@pytest.mark.parametrize(
    ("splits", "expected"),
    [
        (("train", "test"), ("train", "test")),
        (("train", "val"), ("train", "val")),
        (("train", "validation", "val", "test"), ("train", "test")),
    ],
)
def test_the_data_sets_own_splits(tmp_path, splits, expected):
    for split in splits:
        write_images(tmp_path / split, ["cat", "dog"])
    train, test = open_labelled("folder", [tmp_path])
    assert (train.split, test.split) == expected


def test_a_split_without_labels_is_passed_over(tmp_path):
    write_images(tmp_path / "train", ["cat", "dog"])
    write_images(tmp_path / "test", ["."])
    write_images(tmp_path / "val", ["cat", "dog"])
    assert [source.split for source in open_labelled("folder", [tmp_path])] == ["train", "val"]


def test_not_the_unlabelled_images_of_stl10(tmp_path):
    rng = np.random.default_rng(0)
    for name, count in (("unlabeled", 3), ("train", 20), ("test", 10)):
        rng.integers(0, 256, [count, 3, 96, 96], np.uint8).tofile(tmp_path / f"{name}_X.bin")
        (np.arange(count) % 10 + 1).astype(np.uint8).tofile(tmp_path / f"{name}_y.bin")
    train, test = open_labelled("stl10", [tmp_path])
    assert (train.split, train.count, test.split, test.count) == ("train", 20, "test", 10)


@pytest.mark.parametrize("split", ["", "train", "test"])
def test_a_single_split_is_shared_out(tmp_path, split):
    write_images(tmp_path / split, ["cat", "dog"], count=50)
    train, test = open_labelled("folder", [tmp_path])
    places = [[source.where(i) for i in range(source.count)] for source in (train, test)]
    assert not set(places[0]) & set(places[1])
    assert len(places[0]) + len(places[1]) == 100
    assert 9 <= sum("/cat/" in place for place in places[1]) <= 11
    assert 9 <= sum("/dog/" in place for place in places[1]) <= 11


def test_secret_labels_are_none(tmp_path, monkeypatch):
    labelled = scenes(10, seed=3)
    secret = dataclasses.replace(labelled, labels=np.full(10, -1), split="test")
    others = dataclasses.replace(labelled, split="validation")
    splits = {"train": lambda: labelled, "test": lambda: secret, "validation": lambda: others}
    monkeypatch.setattr(synthetic, "find", lambda data_dir: splits)
    _, test = open_labelled("synthetic")
    assert test is others


def test_refuses_what_it_cannot_do(tmp_path, refusal):
    write_images(tmp_path / "flat", ["."])
    message = refusal(open_labelled, "folder", [tmp_path / "flat"])
    assert message.startswith("--dataset=folder: has no labels; ")

    write_images(tmp_path / "other" / "train", ["cat", "dog"])
    write_images(tmp_path / "other" / "test", ["cat", "horse"])
    message = refusal(open_labelled, "folder", [tmp_path / "other"])
    assert message == "--dataset=folder: train and test do not have the same classes, such as dog"

    message = refusal(open_labelled, "folder", [tmp_path / "other"], "--probe_dataset")
    assert message.startswith("--probe_dataset=folder: train and test do not")

    assert refusal(open_labelled, "stl11").startswith("--dataset=stl11: unknown")


def test_refuses_several_labels_per_image(tmp_path, refusal):
    (tmp_path / "attributes.csv").write_text("split,file,smiling\ntrain,1.jpg,0\nval,2.jpg,1\n")
    message = refusal(open_labelled, "celeb_a", [tmp_path])
    assert message == "--dataset=celeb_a: has several labels per image, which is not supported here; expected classes"


def write_voc(place, **splits):
    """VOC's layout, of images of these numbers."""
    (place / "ImageSets" / "Main").mkdir(parents=True)
    (place / "Annotations").mkdir()
    for split, numbers in splits.items():
        (place / "ImageSets" / "Main" / f"{split}.txt").write_text("".join(f"{n:06d}\n" for n in numbers))
        for n in numbers:
            (place / "Annotations" / f"{n:06d}.xml").write_text("<annotation/>")


OFFICIAL = {"trainval": range(20), "train": range(10), "val": range(10, 20)}


@pytest.mark.parametrize(
    ("splits", "expected"),
    [
        ({**OFFICIAL, "test": range(20, 30)}, ("trainval", "test")),  # as the paper's figures for VOC
        (OFFICIAL, ("train", "val")),
        ({"trainval": range(10), "val": range(10, 20)}, ("trainval", "val")),
        ({"train": range(10), "val": range(10, 20)}, ("train", "val")),
    ],
)
def test_trainval_is_for_training_if_there_are_other_test_images(tmp_path, splits, expected):
    write_voc(tmp_path, **splits)
    chosen = open_labelled("voc/2007", [tmp_path], kinds=("multi-label",))
    assert tuple(source.split for source in chosen) == expected
    assert tuple(source.split for source in open_images("voc/2007", [tmp_path])) == expected


def test_splits_that_share_images_are_refused(tmp_path, refusal):
    write_voc(tmp_path / "both", trainval=range(20), val=range(5, 15))
    asked = ("voc/2007", [tmp_path / "both"], "--dataset", ("multi-label",))
    assert refusal(open_labelled, *asked) == (
        f"--dataset=voc/2007: trainval and val share 10 images, such as {tmp_path}/both/JPEGImages/000005.jpg; give "
        "others as --split and --test_split"
    )
    write_voc(tmp_path / "all", **OFFICIAL, test=range(20, 30))
    asked = ("voc/2007", [tmp_path / "all"], "--dataset", ("multi-label",))
    assert "train and trainval share 10 images" in refusal(open_labelled, *asked, "train", "trainval")
    assert "test cannot be for training and for testing" in refusal(open_labelled, *asked, "test", "test")
    train, test = open_labelled(*asked, None, "val")
    assert (train.split, test.split) == ("train", "val")


@pytest.mark.parametrize("choose", [open_labelled, open_images])
def test_one_split_is_not_for_training_and_testing(choose, refusal):
    message = refusal(lambda: choose("synthetic", train_split="test", test_split="test"))
    assert message.endswith("test cannot be for training and for testing; give others as --split and --test_split")


def test_splits_by_name(tmp_path, refusal):
    for split in ("train", "val", "test"):
        write_images(tmp_path / split, ["cat", "dog"])
    train, test = open_labelled("folder", [tmp_path], train_split="val", test_split="train")
    assert (train.split, test.split) == ("val", "train")
    message = refusal(open_labelled, "folder", [tmp_path], "--dataset", ("class",), "trian")
    assert "--split=trian: folder" in message


def test_few_of_each_class(refusal):
    source = scenes(40, seed=1)
    chosen = few(source, per_class=2, seed=0)
    assert chosen.count == 20
    assert np.bincount(labels_of(chosen)).tolist() == [2] * 10
    numbers = chosen.indices.tolist()
    assert numbers == sorted(set(numbers)) != few(source, per_class=2, seed=1).indices.tolist()
    assert np.bincount(labels_of(few(source, fraction=0.5))).tolist() == [2] * 10
    assert np.bincount(labels_of(few(source, fraction=0.01))).tolist() == [1] * 10
    message = refusal(few, source, None, 5)
    assert message == "--labels_per_class=5: synthetic seed 1 has only 4 images of class " + source.label_names[0]


def write_stl10(place, folds="0 1 2\n3 4 5\n"):
    place.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    for name, count in (("train", 20), ("test", 10)):
        rng.integers(0, 256, [count, 3, 96, 96], np.uint8).tofile(place / f"{name}_X.bin")
        (np.arange(count) % 10 + 1).astype(np.uint8).tofile(place / f"{name}_y.bin")
    (place / "fold_indices.txt").write_text(folds)


@pytest.mark.parametrize("below", [".", "stl10_binary"])
def test_the_official_folds(tmp_path, below):
    write_stl10(tmp_path / below)
    train, _ = open_labelled("stl10", [tmp_path])
    assert [fold.tolist() for fold in stl10_folds(train, [tmp_path])] == [[0, 1, 2], [3, 4, 5]]


def test_folds_of_what_has_none(tmp_path, refusal):
    write_stl10(tmp_path / "binaries", folds="0 1 20\n")
    train, test = open_labelled("stl10", [tmp_path / "binaries"])
    assert refusal(stl10_folds, train, [tmp_path / "binaries"]).endswith(
        "fold_indices.txt: expected indices of the 20 training images, but the largest is 20"
    )
    write_images(tmp_path / "classes", ["cat", "dog"])
    other, _ = open_labelled("folder", [tmp_path / "classes"])
    for source in (test, other):
        message = refusal(stl10_folds, source, [tmp_path / "binaries"])
        assert message.startswith("--folds: are defined for STL-10's official binaries; give --dataset=stl10")


def with_labels(labels):
    return dataclasses.replace(scenes(len(labels), seed=1), labels=np.array(labels), label_names=("a", "b", "c", "d"))


def test_of_every_class_a_part_is_held_out():
    source = with_labels([0] * 20 + [1] * 3 + [2] + [-1] * 5)
    rest, held_out = hold_out(source, 0.2, seed=3)
    assert np.bincount(labels_of(held_out)).tolist() == [4, 1]  # at least one, but never the last
    assert np.bincount(labels_of(rest)).tolist() == [16, 2, 1]
    assert not set(rest.indices) & set(held_out.indices)
    assert held_out.indices.tolist() == hold_out(source, 0.2, seed=3)[1].indices.tolist()
    assert held_out.indices.tolist() != hold_out(source, 0.2, seed=4)[1].indices.tolist()


def test_of_several_labels_a_part_is_held_out():
    source = with_labels(np.zeros([10, 4], np.int8))
    rest, held_out = hold_out(dataclasses.replace(source, label_kind="multi-label"), 0.25)
    assert (rest.count, held_out.count) == (8, 2)


def test_single_images_cannot_be_held_out(refusal):
    message = refusal(hold_out, with_labels([0, 1, 2]), 0.2)
    assert message == (
        "--validation=0.2: synthetic seed 1 has no class with two images, so none can be held out; give --validation=0"
    )


def test_a_single_split_is_the_one_for_testing(tmp_path):
    for split in ("train", "val"):
        write_images(tmp_path / split, ["cat", "dog"])
    (tmp_path / "test").mkdir()
    Image.fromarray(np.zeros([8, 8, 3], np.uint8)).save(tmp_path / "test" / "0.png")  # without labels
    assert open_one("folder", [tmp_path]).split == "val"
    assert open_one("folder", [tmp_path], "train").split == "train"
    assert open_any("folder", [tmp_path]).split == "test"
    assert open_any("folder", [tmp_path], "train").split == "train"
    assert open_one("folder", [tmp_path / "train"]).split == open_any("folder", [tmp_path / "train"]).split == "all"


def test_one_split_without_classes(tmp_path, refusal):
    (tmp_path / "test").mkdir()
    Image.fromarray(np.zeros([8, 8, 3], np.uint8)).save(tmp_path / "test" / "0.png")
    assert refusal(open_one, "folder", [tmp_path]).startswith("--dataset=folder: has no labels; expected")
    assert refusal(open_one, "folder", [tmp_path], "test").startswith("--dataset=folder --split=test: has no labels;")
