"""Folders of small images with masks, in both layouts."""

import numpy as np
import pytest
from PIL import Image

from lci_tf.evaluation.voc.segmentation import masks

NAMES = ("sky", "wall", "void", "grass")  # the void one is in the middle, so that classes and numbers differ
COLOURS = np.array([[90, 140, 220], [150, 80, 60], [0, 0, 0], [60, 150, 60]])


def example(rng, height, width):
    """An image of three coloured bands of random heights, and its mask, with some void between."""
    first, second = sorted(rng.integers(height // 6, height, 2))
    mask = np.full([height, width], 3, np.uint8)
    mask[:second], mask[:first] = 1, 0
    mask[first : first + 1] = 2
    noise = rng.normal(0, 20, [height, width, 3])
    return (COLOURS[mask] + noise).clip(0, 255).astype(np.uint8), mask


def write_folder(place, train=6, test=3, size=(60, 80)):
    rng = np.random.default_rng(0)
    for split, count in (("train", train), ("val", test)):
        (place / split).mkdir(parents=True)
        (place / f"{split}annot").mkdir()
        for i in range(count):
            image, mask = example(rng, *size)
            Image.fromarray(image).save(place / split / f"{i}.jpg", quality=95)
            Image.fromarray(mask).save(place / f"{split}annot" / f"{i}.png")
    (place / "classes.txt").write_text("".join(f"{name}\n" for name in NAMES))
    return place


def write_voc(place):
    """VOC's layout, of sizes that differ."""
    rng = np.random.default_rng(1)
    for name in ("JPEGImages", "SegmentationClass", "ImageSets/Segmentation"):
        (place / name).mkdir(parents=True)
    for i, size in enumerate(((50, 70), (70, 50), (50, 70), (64, 64))):
        image, mask = example(rng, *size)
        Image.fromarray(image).save(place / "JPEGImages" / f"2007_{i}.jpg")
        masks.write(place / "SegmentationClass" / f"2007_{i}.png", np.where(mask == 2, 255, mask))
    (place / "ImageSets" / "Segmentation" / "train.txt").write_text("2007_0\n2007_1\n")
    (place / "ImageSets" / "Segmentation" / "val.txt").write_text("2007_3\n")
    (place / "ImageSets" / "Segmentation" / "all.txt").write_text("2007_0\n2007_1\n2007_2\n")
    return place


@pytest.fixture(scope="session")
def layouts():
    """What writes each of them to a new folder."""
    return {"folder": write_folder, "voc": write_voc}


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "data")


@pytest.fixture
def voc(tmp_path):
    return write_voc(tmp_path / "VOC2007")
