import numpy as np
import pytest
from PIL import Image

from lci_tf.evaluation.voc.segmentation import masks

# As published with VOC's development kit.
COLOURS = {0: (0, 0, 0), 1: (128, 0, 0), 2: (0, 128, 0), 7: (128, 128, 128), 8: (64, 0, 0), 15: (192, 128, 128),
           20: (0, 64, 128), 255: (224, 224, 192)}  # fmt: skip


def test_the_palette_is_voc_s():
    for number, colour in COLOURS.items():
        assert tuple(masks.palette()[number]) == colour


def test_a_mask_comes_back(tmp_path):
    numbers = np.random.default_rng(0).integers(0, 256, [9, 12]).astype(np.uint8)
    masks.write(tmp_path / "mask.png", numbers)
    np.testing.assert_array_equal(masks.read(tmp_path / "mask.png"), numbers)
    with Image.open(tmp_path / "mask.png") as picture:
        assert picture.mode == "P"
        np.testing.assert_array_equal(np.asarray(picture.convert("RGB")), masks.palette()[numbers])


@pytest.mark.parametrize("mode", ["L", "1"])
def test_masks_without_palette(tmp_path, mode):
    Image.fromarray(np.array([[0, 255], [255, 0]], np.uint8)).convert(mode).save(tmp_path / "mask.png")
    expected = {"L": [[0, 255], [255, 0]], "1": [[0, 1], [1, 0]]}
    np.testing.assert_array_equal(masks.read(tmp_path / "mask.png"), expected[mode])


def test_numbers_become_classes():
    table = masks.table_of((0, 1, 3), (2, 9))
    numbers = np.array([[0, 1, 2], [3, 9, 255]], np.uint8)
    np.testing.assert_array_equal(
        masks.classes_of(numbers, table, "m.png", ("a", "b", "c")), [[0, 1, 255], [2, 255, 255]]
    )


def test_an_unknown_number(refusal):
    table, numbers = masks.table_of((0, 1), ()), np.array([[0, 1, 1], [0, 1, 7]], np.uint8)
    message = refusal(masks.classes_of, numbers, table, "m.png", ("a", "b"))
    assert message.startswith("m.png: has 7 at row 1, column 2, which is neither one of the 2 classes nor void")


def test_what_is_no_mask(tmp_path, refusal):
    grey = np.zeros([4, 4], np.uint8)
    Image.fromarray(grey).save(tmp_path / "lossy.jpg")
    Image.fromarray(np.stack([grey] * 3, axis=-1)).save(tmp_path / "colours.png")
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nand so on")
    Image.fromarray(grey).save(tmp_path / "whole.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "whole.png").read_bytes()[:-30])
    for name, reason in {"lossy.jpg": "lossless", "colours.png": "mode RGB", "broken.png": "cannot be read",
                         "cut.png": "cannot be read", "missing.png": "no such mask"}.items():  # fmt: skip
        message = refusal(masks.read, str(tmp_path / name))
        assert message.startswith(f"{tmp_path / name}: ") and reason in message
