import numpy as np
import pytest

from lci_tf.data import open_source, split_names

CLASSES = [
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
]  # fmt: skip


def write_annotation(place, number, *objects):
    """`objects` are (name, difficult)."""
    listed = "".join(
        f"<object><name>{name}</name><pose>Left</pose><difficult>{difficult}</difficult>"
        "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>4</xmax><ymax>4</ymax></bndbox>"
        "<part><name>head</name></part></object>"
        for name, difficult in objects
    )
    path = place / "Annotations" / f"{number}.xml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"<annotation><filename>{number}.jpg</filename>{listed}</annotation>")


def write_list(place, split, text):
    path = place / "ImageSets" / "Main" / f"{split}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def expected_label(**values):
    return [values.get(name, 0) for name in CLASSES]


@pytest.fixture
def voc(tmp_path):
    write_list(tmp_path, "trainval", "000005\n000007\n")
    write_annotation(tmp_path, "000005", ("dog", 0), ("person", 1))
    write_annotation(tmp_path, "000007", ("train", 0))
    return tmp_path


def test_images_come_with_the_classes_of_their_objects(voc, write_png, read_all):
    originals = [write_png("JPEGImages/000005.jpg"), write_png("JPEGImages/000007.jpg")]
    source = open_source("voc/2007", None, [voc])
    assert (source.name, source.split, source.count, source.label_kind) == ("voc/2007", "trainval", 2, "multi-label")
    assert list(source.label_names) == CLASSES
    images, labels = read_all(source)
    np.testing.assert_array_equal(images, originals)
    assert labels == [expected_label(dog=1, person=-1), expected_label(train=1)]
    assert source.labels.dtype == np.int8


@pytest.mark.parametrize(
    ("difficult", "label"),
    [((), 0), ((0,), 1), ((1,), -1), ((1, 1), -1), ((0, 1), 1), ((1, 0), 1), ((1, 0, 1), 1)],
)
def test_a_class_with_only_difficult_objects_is_not_counted(tmp_path, difficult, label):
    write_list(tmp_path, "test", "000001\n")
    write_annotation(tmp_path, "000001", *(("cow", value) for value in difficult))
    source = open_source("voc/2007", "test", [tmp_path])
    assert source.labels.tolist() == [expected_label(cow=label)]


def test_an_object_that_does_not_say_whether_it_is_difficult_is_not(voc):
    (voc / "Annotations" / "000007.xml").write_text("<annotation><object><name>sofa</name></object></annotation>")
    assert open_source("voc/2007", None, [voc]).labels[1].tolist() == expected_label(sofa=1)


def test_lists_of_single_classes_are_no_splits_and_trainval_comes_first(voc):
    for name in ("train", "val", "test", "mine", "aeroplane_train", "tvmonitor_trainval", "train_val"):
        write_list(voc, name, "000005  1\n")
    assert split_names("voc/2007", [voc]) == ["trainval", "train", "val", "test", "mine"]


def test_a_flag_behind_the_image_and_blank_lines_are_passed_over(voc):
    write_list(voc, "val", "000005 -1\n\n000007  1\n\n")
    source = open_source("voc/2007", "val", [voc])
    assert [source.where(i) for i in range(source.count)] == [
        str(voc / "JPEGImages" / "000005.jpg"),
        str(voc / "JPEGImages" / "000007.jpg"),
    ]


@pytest.mark.parametrize("below", ["", "VOC2012", "VOCdevkit/VOC2012"])
def test_the_layout_is_found_where_the_archive_unpacks_it(tmp_path, below):
    write_list(tmp_path / below, "train", "2008_000002\n")
    write_annotation(tmp_path / below, "2008_000002", ("tvmonitor", 0))
    source = open_source("voc/2012", None, [tmp_path])
    assert (source.name, source.split) == ("voc/2012", "train")
    assert source.where(0) == str(tmp_path / below / "JPEGImages" / "2008_000002.jpg")


def test_the_other_year_is_not_taken_instead(tmp_path, refusal):
    write_list(tmp_path / "VOC2012", "train", "2008_000002\n")
    assert "no VOC layout there" in refusal(open_source, "voc/2007", None, [tmp_path])


def test_a_missing_annotation_is_named(voc, refusal):
    (voc / "Annotations" / "000007.xml").unlink()
    message = refusal(open_source, "voc/2007", "trainval", [voc])
    assert f"{voc / 'Annotations' / '000007.xml'}: no such file" in message and "ImageSets/Main" in message


@pytest.mark.parametrize("text", ["<annotation><object>", "", "not XML at all"])
def test_a_broken_annotation_is_named(voc, refusal, text):
    (voc / "Annotations" / "000007.xml").write_text(text)
    message = refusal(open_source, "voc/2007", "trainval", [voc])
    assert f"{voc / 'Annotations' / '000007.xml'}: not an XML annotation" in message


def test_an_unknown_class_is_named(voc, refusal):
    write_annotation(voc, "000007", ("dog", 0), ("unicorn", 0))
    message = refusal(open_source, "voc/2007", "trainval", [voc])
    assert str(voc / "Annotations" / "000007.xml") in message
    assert "'unicorn' is not one of VOC's twenty classes" in message


def test_a_list_without_images_is_refused(voc, refusal):
    write_list(voc, "val", "\n")
    assert "val.txt: lists no image" in refusal(open_source, "voc/2007", "val", [voc])


def test_a_layout_without_lists_is_refused(tmp_path, refusal):
    write_list(tmp_path, "aeroplane_train", "000005 1\n")
    message = refusal(open_source, "voc/2007", None, [tmp_path])
    assert f"{tmp_path / 'ImageSets' / 'Main'}: no list of images" in message and "trainval.txt" in message


def test_an_unknown_split_is_refused_with_those_there_are(voc, refusal):
    assert refusal(open_source, "voc/2007", "test", [voc]) == f"--split=test: voc/2007 in {voc} has trainval"


def test_a_directory_without_the_layout_is_refused(tmp_path, refusal):
    (tmp_path / "photo.jpg").touch()
    message = refusal(open_source, "voc/2007", None, [tmp_path])
    assert f"--data_dir={tmp_path}: no VOC layout there" in message
    assert "ImageSets/Main" in message and "Annotations" in message and "JPEGImages" in message
