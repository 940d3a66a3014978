import numpy as np
import pytest
from PIL import Image

from lci_tf.data import open_source
from lci_tf.data.sets.voc import CLASSES
from lci_tf.errors import InputError
from lci_tf.evaluation.voc.detection import annotations


@pytest.fixture
def voc(tmp_path, write_voc):
    """With the images 000000 and 000001."""
    return write_voc(tmp_path, "trainval", 2)


def read(voc):
    return annotations.read(open_source("voc/2007", "trainval", [voc]))


def write_one(voc, annotate, *objects, width=None):
    with Image.open(voc / "JPEGImages" / "000000.jpg") as image:
        annotate(voc, "000000", objects, width or image.width, image.height)


def test_boxes_count_pixels_from_0_and_show_what_they_name(voc):
    for one in read(voc):
        pixels = np.asarray(Image.open(one.path)).astype(int)
        assert pixels.shape == (one.height, one.width, 3)
        box, number = one.boxes[-1].astype(int), one.classes[-1]  # painted last, so not hidden
        inside = pixels[box[1] : box[3] + 1, box[0] : box[2] + 1].mean((0, 1))
        colour = {"car": (220, 40, 40), "dog": (40, 60, 220), "person": (230, 220, 60)}[CLASSES[number]]
        assert np.abs(inside - colour).max() < 20
    assert [one.number for one in read(voc)] == ["000000", "000001"]


def test_difficult_objects_are_marked(voc, annotate):
    write_one(voc, annotate, ("dog", 1, 1, 9, 9, True), ("dog", 5, 5, 20, 20))
    assert read(voc)[0].difficult.tolist() == [True, False]


def test_an_image_without_objects_has_no_boxes(voc, annotate):
    write_one(voc, annotate)
    one = read(voc)[0]
    assert one.boxes.shape == (0, 4) and one.classes.shape == one.difficult.shape == (0,)


def test_fractions_that_count_from_0_stay_within_the_image(voc, annotate):
    write_one(voc, annotate, ("dog", 0.0, 0.4, 20.5, 64))
    np.testing.assert_allclose(read(voc)[0].boxes, [[0, 0, 19.5, 63]])


def test_the_digest_changes_with_an_object(voc, annotate):
    write_one(voc, annotate, ("dog", 1, 1, 9, 9))
    before = annotations.digest(read(voc))
    assert before == annotations.digest(read(voc))
    for changed in [("dog", 1, 1, 9, 8)], [("dog", 1, 1, 9, 9, True)], [("cat", 1, 1, 9, 9)], []:
        write_one(voc, annotate, *changed)
        assert annotations.digest(read(voc)) != before


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("dog", 10, 10, 10, 20), "000000.xml: object 'dog' has an empty box, 10, 10 to 10, 20"),
        (("dog", 10, 20, 20, 10), "000000.xml: object 'dog' has an empty box"),
        (("dog", 10, 10, 20, 65), "000000.xml: object 'dog' has a box outside the image, 10, 10 to 20, 65 in"),
        (("dog", -1, 10, 20, 20), "000000.xml: object 'dog' has a box outside the image, -1, 10 to 20, 20 in"),
        (("dog", 10, "wide", 20, 20), "000000.xml: object 'dog' has no box of four numbers"),
        (("dog", 10, "nan", 20, 20), "000000.xml: object 'dog' has an empty box"),
        (("unicorn", 1, 1, 9, 9), "000000.xml: object 'unicorn' is not one of VOC's twenty classes"),
    ],
)
def test_objects_that_cannot_be_are_told_in_a_line(voc, annotate, wrong, message):
    write_one(voc, annotate, wrong)
    with pytest.raises(InputError) as error:
        read(voc)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_an_annotation_without_its_image_and_the_reverse_are_told_in_a_line(voc):
    source = open_source("voc/2007", "trainval", [voc])
    (voc / "JPEGImages" / "000001.jpg").rename(voc / "JPEGImages" / "away.jpg")
    with pytest.raises(InputError, match=r"000001.jpg: no such image, though ImageSets/Main lists it"):
        annotations.read(source)
    (voc / "Annotations" / "000000.xml").unlink()
    with pytest.raises(InputError, match=r"000000.xml: no such annotation, though ImageSets/Main lists"):
        annotations.read(source)


def test_an_annotation_of_another_image_or_that_is_no_xml_is_told_in_a_line(voc, annotate):
    write_one(voc, annotate, ("dog", 1, 1, 9, 9), width=500)
    with pytest.raises(InputError, match=r"000000.xml: describes an image of 500×64 pixels, but .*000000.jpg has"):
        read(voc)
    source = open_source("voc/2007", "trainval", [voc])
    (voc / "Annotations" / "000000.xml").write_text("<annotation>")
    with pytest.raises(InputError, match=r"000000.xml: not an XML annotation"):
        annotations.read(source)


def test_an_image_that_is_none_or_lies_on_its_side_is_told_in_a_line(voc):
    path = voc / "JPEGImages" / "000000.jpg"
    with Image.open(path) as image:
        turned = image.getexif()
        turned[0x0112] = 6
        image.save(path, exif=turned)
    with pytest.raises(InputError, match=r"000000.jpg: has an EXIF orientation"):
        read(voc)
    path.write_text("no image")
    with pytest.raises(InputError, match=r"000000.jpg: is not an image"):
        read(voc)


def test_an_image_set_that_names_nothing_is_told_in_a_line(voc):
    (voc / "ImageSets" / "Main" / "trainval.txt").write_text("\n")
    with pytest.raises(InputError, match=r"trainval.txt: lists no image"):
        read(voc)
