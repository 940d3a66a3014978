import numpy as np
import pytest
from PIL import Image

from lci_tf.evaluation.voc.segmentation import sources
from lci_tf.evaluation.voc.segmentation.masks import VOID


def test_a_folder_as_camvid_has_it(folder):
    train, test = sources.find_folder(folder)
    assert (train.split, train.count, test.split, test.count) == ("train", 6, "val", 3)
    assert train.names == ("sky", "wall", "grass") and train.numbers.tolist() == [0, 1, 3]
    assert train.images[4] == str(folder / "train" / "4.jpg") and train.name_of(4) == "4"
    numbers = np.asarray(Image.open(folder / "trainannot" / "4.png"))
    expected = np.select([numbers == 0, numbers == 1, numbers == 3], [0, 1, 2], VOID)
    np.testing.assert_array_equal(train.mask(4), expected)
    masks = [train.mask(i) for i in range(6)]
    np.testing.assert_array_equal(train.check(), [sum(np.sum(m == c) for m in masks) for c in (0, 1, 2, VOID)])


def test_void_by_number_and_names_from_a_file(folder, tmp_path):
    (tmp_path / "names").write_text("a\nb\nc\nd\n")
    train, _ = sources.find_folder(folder, str(tmp_path / "names"), void=(1,))
    assert train.names == ("a", "c", "d")
    assert (train.mask(0) == VOID).sum() == (np.asarray(Image.open(folder / "trainannot" / "0.png")) == 1).sum()


@pytest.mark.parametrize(("images", "masks"), [("{}", "{}_masks"), ("images/{}", "masks/{}")])
def test_other_layouts(folder, images, masks):
    for split in ("train", "val"):
        for before, after in ((split, images), (f"{split}annot", masks)):
            target = folder / after.format(split)
            if target != folder / before:
                target.parent.mkdir(exist_ok=True)
                (folder / before).rename(target)
    train, _ = sources.find_folder(folder)
    assert train.masks[0] == str(folder / masks.format("train") / "0.png")


def test_voc(voc):
    for place in (voc, voc.parent):
        train, test = sources.find_voc("2007", place)
        assert (train.split, test.split) == ("train", "val")
        assert train.images == tuple(str(voc / "JPEGImages" / f"2007_{i}.jpg") for i in (0, 1))
        assert train.names[:2] == ("background", "aeroplane") and len(train.names) == 21
        numbers = np.asarray(Image.open(voc / "SegmentationClass" / "2007_0.png"))
        np.testing.assert_array_equal(train.mask(0), numbers)
        assert train.check()[[4, 21]].tolist() == [0, sum((train.mask(i) == 255).sum() for i in (0, 1))]


def test_the_fingerprint_is_that_of_images_and_masks(folder):
    def prints():
        return sources.find_folder(folder)[0].fingerprint

    first = prints()
    assert prints() == first
    corrected, path = np.eye(60, 80, dtype=np.uint8), folder / "trainannot" / "0.png"
    Image.fromarray(corrected).save(path, compress_level=0)
    second, size = prints(), path.stat().st_size
    assert second["contents"] == first["contents"] and second["labels"] != first["labels"]
    corrected[30, 40] = 3
    Image.fromarray(corrected).save(path, compress_level=0)
    assert prints()["labels"] != second["labels"] and path.stat().st_size == size  # which tells nothing
    assert sources.find_folder(folder, void=(1,))[0].fingerprint["labels"] != prints()["labels"]


def test_images_and_masks_that_do_not_go_together(folder, refusal):
    def replaced(path, array):
        before = path.read_bytes()
        Image.fromarray(array).save(path)
        return before

    mask, image = folder / "trainannot" / "2.png", folder / "train" / "2.jpg"
    kept = replaced(mask, np.zeros([60, 81], np.uint8))
    message = refusal(sources.find_folder(folder)[0].check)
    assert message.startswith(f"{mask}: is 81 × 60 pixels, but its image {image} is 80 × 60")
    replaced(mask, np.full([60, 80], 9, np.uint8))
    assert f"{mask}: has 9 at row 0, column 0" in refusal(sources.find_folder(folder)[0].check)
    mask.unlink()
    assert refusal(sources.find_folder, folder).startswith(f"{image}: has no mask; expected {mask}")
    mask.write_bytes(kept)
    image.unlink()
    assert refusal(sources.find_folder, folder).startswith(f"{mask}: is a mask without image")
    image.write_bytes(b"\xff\xd8\xff nothing")
    assert refusal(sources.find_folder(folder)[0].check).startswith(f"{image}: is not an image")


def test_a_photograph_that_lies_is_as_large_as_it_stands(folder):
    image = Image.fromarray(np.zeros([80, 60, 3], np.uint8))
    exif = image.getexif()
    exif[0x0112] = 6
    image.save(folder / "train" / "0.jpg", exif=exif)
    sources.find_folder(folder)[0].check()


def test_lists_of_voc(voc, refusal):
    lists = voc / "ImageSets" / "Segmentation"
    (lists / "empty.txt").write_text("\n")
    (lists / "gone.txt").write_text("2007_0\n2008_77\n")
    (lists / "both.txt").write_text("2007_2\n2007_0\n")

    def message(**splits):
        return refusal(lambda: sources.find_voc("2007", voc, **splits))

    assert message(train="empty") == f"{lists / 'empty.txt'}: lists no images"
    assert message(train="gone") == (f"{lists / 'gone.txt'}: lists 2008_77, but there is no image "
                                     f"{voc / 'JPEGImages' / '2008_77.jpg'}")  # fmt: skip
    assert message(train="trian").startswith("--split=trian: no such split with masks;")
    assert message(test="both").startswith("train and both share 1 images, such as")
    (voc / "SegmentationClass" / "2007_1.png").unlink()
    assert message().endswith(f"there is no mask {voc / 'SegmentationClass' / '2007_1.png'}")
    assert refusal(sources.find_voc, "2007", voc / "JPEGImages").startswith("--data_dir=")


def test_names_of_classes(folder, tmp_path, refusal):
    file = tmp_path / "names"

    def message(text):
        file.write_text(text)
        return refusal(sources.find_folder, folder, str(file))

    assert message("a\n\nb\n") == f"--class_names={file}: line 2 is empty; expected a name on each line"
    assert message("a\nb\na\n").endswith("has the name a twice")
    assert "expected 1 to 253" in message("")
    assert "at least two classes" in message("a\nvoid\n")
    assert refusal(sources.find_folder, folder, "/no/such").startswith("--class_names=/no/such: no such file")
    (folder / "classes.txt").unlink()
    assert refusal(sources.find_folder, folder).startswith("--class_names: missing; give a file")
    assert "no such folder" in refusal(sources.find_folder, folder / "missing")


def test_a_folder_without_masks(folder, refusal):
    for split in ("train", "val"):
        (folder / f"{split}annot").rename(folder / f"{split}labels")
    message = refusal(sources.find_folder, folder)
    assert "train/ and trainannot/" in message and "images/train/ and masks/train/" in message
    (folder / "trainlabels").rename(folder / "trainannot")
    assert "others to test on, such as train and val, got train" in refusal(sources.find_folder, folder)


def test_two_images_for_one_mask(folder, refusal):
    Image.new("RGB", (80, 60)).save(folder / "train" / "3.png")
    assert "has the same name as" in refusal(sources.find_folder, folder)
