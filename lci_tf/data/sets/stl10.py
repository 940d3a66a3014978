"""STL-10, from the official binaries, class folders, or tensorflow-datasets."""

import functools
import pathlib

import numpy as np

from lci_tf.data.sets import folder, tfds_sets
from lci_tf.data.source import PixelArray, Splits
from lci_tf.errors import InputError

CLASSES = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")
SIDE = 96
_BYTES = 3 * SIDE * SIDE


def find(data_dir: pathlib.Path | None) -> Splits:
    if data_dir is None:
        return tfds_sets.find("stl10", data_dir)
    for place in (data_dir, data_dir / "stl10_binary"):
        splits = _find_binaries(place)
        if splits:
            return splits
    splits = _find_class_folders(data_dir)
    if splits:
        return splits
    if tfds_sets.is_prepared("stl10", data_dir) or tfds_sets.may_go_to(data_dir):
        return tfds_sets.find("stl10", data_dir)
    raise InputError(
        f"--data_dir={data_dir}: no STL-10 there; expected the official binaries (unlabeled_X.bin, train_X.bin, "
        "train_y.bin, …), class folders (train/airplane/….jpg), or a set prepared by tensorflow-datasets"
    )


def _find_binaries(place: pathlib.Path) -> Splits:
    files = {"unlabelled": "unlabeled_X.bin", "train": "train_X.bin", "test": "test_X.bin"}
    return {s: functools.partial(open_binary, place, s) for s, file in files.items() if (place / file).is_file()}


def open_binary(place: pathlib.Path, split: str) -> PixelArray:
    """Reads one split. The file has image after image: all red values, all green, all blue, each column by column."""
    if split == "unlabelled":
        images, labels = place / "unlabeled_X.bin", None
    else:
        images, labels = place / f"{split}_X.bin", _read_labels(place / f"{split}_y.bin")
    size = images.stat().st_size
    if size == 0 or size % _BYTES:
        raise InputError(f"{images}: {size:,} bytes is not a whole number of 96×96 images; is the file truncated?")
    pixels = np.memmap(images, np.uint8, mode="r").reshape(-1, 3, SIDE, SIDE)
    if labels is not None and len(labels) != len(pixels):
        raise InputError(f"{images} has {len(pixels):,} images, but {split}_y.bin has {len(labels):,} labels")
    return PixelArray(
        name="stl10",
        split=split,
        count=len(pixels),
        label_kind="none" if labels is None else "class",
        label_names=() if labels is None else CLASSES,
        pixels=pixels,
        to_images=lambda stored: stored.transpose(0, 3, 2, 1),
        labels=labels,
    )


def _read_labels(path):
    if not path.is_file():
        raise InputError(f"{path}: no such file; the labels belong next to the images")
    labels = np.fromfile(path, np.uint8).astype(np.int64)
    if labels.size and not (labels.min() >= 1 and labels.max() <= len(CLASSES)):
        raise InputError(f"{path}: labels are {labels.min()}…{labels.max()}; STL-10's are 1…10")
    return labels - 1


def read_folds(place: pathlib.Path) -> list[np.ndarray]:
    """The ten official folds of the training split from `fold_indices.txt`: int64 arrays of image indices from 0."""
    path = place / "fold_indices.txt"
    if not path.is_file():
        raise InputError(f"{path}: no such file; it comes with the official binaries")
    try:
        return [np.array(line.split(), np.int64) for line in path.read_text().splitlines() if line.strip()]
    except ValueError as error:
        raise InputError(f"{path}: expected a line of image indices per fold ({error})") from None


def _find_class_folders(data_dir):
    def opener(split, place):
        def open_checked():
            source = folder.open_folder(place, split=split, name="stl10")
            if source.label_kind == "class" and source.label_names != CLASSES:
                raise InputError(f"{place}: classes are {', '.join(source.label_names)}; "
                                 f"STL-10's are {', '.join(CLASSES)}")  # fmt: skip
            return source

        return open_checked

    folders = {"unlabelled": ("unlabelled", "unlabeled"), **{split: (split,) for split in folder.SPLITS}}
    return {
        split: opener(split, data_dir / name)
        for split, names in folders.items()
        for name in names
        if (data_dir / name).is_dir()
    }
