"""Any folder of images: flat or nested, labelled by folder name or not labelled at all."""

import os
import pathlib

import numpy as np
import tensorflow as tf

from lci_tf import files
from lci_tf.data.source import ImageFiles, Splits
from lci_tf.errors import InputError

READ = frozenset({".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".gif"})
# Images all the same, so they are not passed over like a text file: decoding refuses and names them.
REFUSED = frozenset({".tif", ".tiff", ".webp", ".heic", ".heif", ".avif", ".jp2", ".jxl"})
_IMAGES = READ | REFUSED
SPLITS = ("train", "val", "valid", "validation", "test")


def find(data_dir: pathlib.Path | None) -> Splits:
    """`train/`, `val/`, `test/` where there are such folders, else everything as the split `all`."""
    if data_dir is None:
        raise InputError("--dataset=folder needs --data_dir=DIR, the folder with the images")
    if not data_dir.is_dir():
        raise InputError(f"--data_dir={data_dir}: no such folder")
    splits = [name for name in SPLITS if (data_dir / name).is_dir()]
    if not splits:
        return {"all": lambda: open_folder(data_dir, split="all")}
    notes = _notes_on_what_stands_beside(splits, data_dir)
    return {name: lambda name=name: open_folder(data_dir / name, split=name, notes=notes) for name in splits}


def _notes_on_what_stands_beside(splits, data_dir):
    """Those who have classes `bus`, `car` and `train` should be told that the last is taken for a split."""

    def counts(entry):
        return entry.name not in splits and not entry.name.startswith(".") and (_is_image(entry.name) or entry.is_dir())

    beside = sorted(entry.name for entry in data_dir.iterdir() if counts(entry))
    if not beside:
        return ()
    return (f"{data_dir}: {' and '.join(splits)} taken for splits; not looked at: {', '.join(beside[:5])}"
            + (f" and {len(beside) - 5} more" if len(beside) > 5 else ""),)  # fmt: skip


def open_folder(folder: pathlib.Path, split: str, name: str = "folder", notes: tuple[str, ...] = ()) -> ImageFiles:
    """All images below `folder`.

    If every image lies in one of two or more subfolders, the subfolder (the first level below `folder`) is its
    class. Otherwise there are no labels.
    """
    paths, others = list_images(folder)
    if not paths:
        found = f"{len(others)} other files, such as {others[0]}" if others else "nothing"
        raise InputError(f"--data_dir: no images in {folder}; expected {', '.join(sorted(READ))}, found {found}")
    if others:
        notes += (f"{len(others):,} files in {folder} are not images by their name and were passed over, "
                  f"such as {others[0]}",)  # fmt: skip
    labels, names = _labels_by_folder(paths, len(str(folder)) + 1)
    return ImageFiles(
        name=name,
        split=split,
        count=len(paths),
        label_kind="none" if labels is None else "class",
        label_names=names,
        notes=notes,
        paths=paths,
        labels=labels,
    )


def list_images(folder: pathlib.Path) -> tuple[list[str], list[str]]:
    """Paths of images, and of files that are none, below `folder`, each sorted.

    No file is touched: on 300,000 files asking each for its size would take minutes on a network disk. Hidden files
    and folders are not looked at. Links to folders are followed, but none is listed twice: a link may lead back.
    """
    images, others = [], []
    for name, path in _in_bucket(folder) if files.is_bucket(folder) else _below(folder):
        (images if _is_image(name) else others).append(path)
    return sorted(images), sorted(others)


def _below(folder):
    """(name, path) of every file, hidden ones aside."""
    folders, seen = [str(folder)], set()
    while folders:
        path = folders.pop()
        real = os.path.realpath(path)
        if real in seen:
            continue
        seen.add(real)
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir():
                    folders.append(entry.path)
                else:
                    yield entry.name, entry.path


def _in_bucket(folder):
    """The same of a bucket, where asking whether a name is a folder's takes as long as reading a file."""
    folders = [str(folder)]
    while folders:
        place = folders.pop()
        for name in tf.io.gfile.listdir(place):
            path = tf.io.gfile.join(place, name.rstrip("/"))
            if name.startswith("."):
                continue
            if name.endswith("/") or (not _is_image(name) and tf.io.gfile.isdir(path)):
                folders.append(path)
            else:
                yield name, path


def _is_image(name):
    return os.path.splitext(name)[1].lower() in _IMAGES  # noqa: PTH122 (pathlib takes ten times as long)


def _labels_by_folder(paths, prefix):
    top = [path[prefix:].split(os.sep, 1) for path in paths]
    names = sorted({parts[0] for parts in top if len(parts) == 2})
    if len(names) < 2 or any(len(parts) == 1 for parts in top):
        return None, ()
    number = {name: i for i, name in enumerate(names)}
    return np.array([number[parts[0]] for parts in top], np.int64), tuple(names)
