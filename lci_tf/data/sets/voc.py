"""PASCAL VOC, from its own layout (`JPEGImages`, `Annotations`, `ImageSets/Main`) or from tensorflow-datasets."""

import functools
import pathlib
import xml.etree.ElementTree

import numpy as np

from lci_tf.data.sets import tfds_sets
from lci_tf.data.source import ImageFiles, Splits
from lci_tf.errors import InputError

CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
PREFERRED = ("trainval", "train", "val", "test")


def find(year: str, data_dir: pathlib.Path | None) -> Splits:
    name = f"voc/{year}"
    if data_dir is None or tfds_sets.is_prepared(name, data_dir):
        return tfds_sets.find(name, data_dir)
    for place in (data_dir, data_dir / f"VOC{year}", data_dir / "VOCdevkit" / f"VOC{year}"):
        lists = place / "ImageSets" / "Main"
        if lists.is_dir():
            # Besides lists of all images, the official archive has lists per class: aeroplane_val.txt, train_val.txt.
            of_one_class = tuple(f"{c}_" for c in CLASSES)
            found = [f.stem for f in lists.glob("*.txt") if not f.stem.startswith(of_one_class)]
            if not found:
                raise InputError(f"{lists}: no list of images; expected trainval.txt, test.txt or similar")
            found.sort(key=lambda s: (PREFERRED.index(s) if s in PREFERRED else len(PREFERRED), s))
            return {split: functools.partial(open_folder, name, place, split) for split in found}
    if tfds_sets.may_go_to(data_dir):
        return tfds_sets.find(name, data_dir)
    raise InputError(f"--data_dir={data_dir}: no VOC layout there; expected ImageSets/Main, Annotations, JPEGImages")


find_2007 = functools.partial(find, "2007")
find_2012 = functools.partial(find, "2012")


def open_folder(name: str, place: pathlib.Path, split: str) -> ImageFiles:
    """The images that `ImageSets/Main/SPLIT.txt` of a folder in VOC's layout lists."""
    # Each line has an image, followed by a flag in some lists.
    images = place / "ImageSets" / "Main" / f"{split}.txt"
    numbers = [line.split()[0] for line in images.read_text().splitlines() if line.strip()]
    if not numbers:
        raise InputError(f"{images}: lists no image")
    return ImageFiles(
        name=name,
        split=split,
        count=len(numbers),
        label_kind="multi-label",
        label_names=CLASSES,
        paths=[str(place / "JPEGImages" / f"{number}.jpg") for number in numbers],
        labels=np.stack([_present(place / "Annotations" / f"{number}.xml") for number in numbers]),
    )


def _present(annotation):
    """int8 [20]: 1 for classes with an object, -1 (not counted, as in VOC's evaluation) if all are difficult."""
    label = np.zeros(len(CLASSES), np.int8)
    try:
        objects = xml.etree.ElementTree.parse(annotation).findall("object")
    except FileNotFoundError:
        raise InputError(f"{annotation}: no such file, though ImageSets/Main lists the image") from None
    except xml.etree.ElementTree.ParseError as error:
        raise InputError(f"{annotation}: not an XML annotation ({error})") from None
    for found in objects:
        name = found.findtext("name")
        if name not in CLASSES:
            raise InputError(f"{annotation}: object {name!r} is not one of VOC's twenty classes")
        difficult = found.findtext("difficult", "0").strip() == "1"
        index = CLASSES.index(name)
        if not difficult:
            label[index] = 1
        elif label[index] == 0:
            label[index] = -1
    return label
