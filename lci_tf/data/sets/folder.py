"""Any folder of images, flat or nested, labelled by subfolder or without labels."""

import functools
import os
import pathlib

import numpy as np
import tensorflow as tf

from lci_tf import files
from lci_tf.data.source import ImageFiles, Splits
from lci_tf.errors import InputError

READ = frozenset({".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".gif"})
# Images that cannot be decoded. They are not skipped like text files, so that they are reported as unreadable.
REFUSED = frozenset({".tif", ".tiff", ".webp", ".heic", ".heif", ".avif", ".jp2", ".jxl"})
_IMAGES = READ | REFUSED
SPLITS = ("train", "val", "valid", "validation", "test")


def find(data_dir: pathlib.Path | None) -> Splits:
    """Splits `train`, `val`, `test`, … if there are folders of these names, else all images as the split `all`."""
    if data_dir is None:
        raise InputError("--dataset=folder needs --data_dir=DIR, the folder with the images")
    if not data_dir.is_dir():
        raise InputError(f"--data_dir={data_dir}: {files.why_no_folder(data_dir)}")
    splits = [name for name in SPLITS if (data_dir / name).is_dir()]
    if not splits:
        return {"all": lambda: open_folder(data_dir, split="all")}
    notes = _notes_on_ignored_entries(splits, data_dir)
    return {name: functools.partial(open_folder, data_dir / name, split=name, notes=notes) for name in splits}


def _notes_on_ignored_entries(splits, data_dir):
    """Notes on folders and images beside the splits: of classes `bus`, `car`, `train`, the last looks like a split."""

    def counts(entry):
        return entry.name not in splits and not entry.name.startswith(".") and (_is_image(entry.name) or entry.is_dir())

    ignored = sorted(entry.name for entry in data_dir.iterdir() if counts(entry))
    if not ignored:
        return ()
    return (f"{data_dir}: {' and '.join(splits)} taken for splits; ignored: {', '.join(ignored[:5])}"
            + (f" and {len(ignored) - 5} more" if len(ignored) > 5 else ""),)  # fmt: skip


def open_folder(folder: pathlib.Path, split: str, name: str = "folder", notes: tuple[str, ...] = ()) -> ImageFiles:
    """Opens all images below `folder`.

    If all images are in two or more subfolders, the class of an image is its subfolder (the first level below
    `folder`). Otherwise there are no labels.
    """
    paths, others, unreadable = list_images(folder)
    if not paths:
        found = f"{len(others)} other files, such as {others[0]}" if others else "nothing"
        raise InputError(f"--data_dir: no images in {folder}; expected {', '.join(sorted(READ))}, found {found}")
    if others:
        notes += (f"{len(others):,} files in {folder} do not have names of images and were skipped, "
                  f"such as {others[0]}",)  # fmt: skip
    if unreadable:
        notes += (f"{len(unreadable):,} entries in {folder} are neither files nor folders, but circular links, pipes "
                  f"or similar, and were skipped, such as {unreadable[0]}",)  # fmt: skip
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


def list_images(folder: pathlib.Path) -> tuple[list[str], list[str], list[str]]:
    """Sorted paths of images, of other files, and of entries that are not files, below `folder`.

    No file is opened, nor its size read, which would take minutes for 300,000 files on a network disk. Hidden files and
    folders are ignored. Links are followed, even out of `folder`, but no folder is listed twice: links may lead back.
    """
    images: list[str] = []
    others: list[str] = []
    unreadable: list[str] = []
    for name, path, is_file in _in_bucket(folder) if files.is_bucket(folder) else _below(folder):
        (unreadable if not is_file else images if _is_image(name) else others).append(path)
    return sorted(images), sorted(others), sorted(unreadable)


def _below(folder):
    """(name, path, whether it is a file) of everything below a folder but hidden entries and folders themselves."""
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
                if _is_folder(entry):
                    folders.append(entry.path)
                else:
                    yield entry.name, entry.path, _is_file(entry)


def _is_folder(entry):
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _is_file(entry):
    """Excludes pipes, for example, which would block. Broken links count, so that the missing file is reported."""
    try:
        return entry.is_file() or (entry.is_symlink() and not _exists(entry))
    except OSError:
        return False


def _exists(entry):
    try:
        return bool(entry.stat())
    except FileNotFoundError:
        return False


def _in_bucket(folder):
    """The same for a bucket, where checking whether a name is a folder takes as long as reading a file."""
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
                yield name, path, True


def _is_image(name):
    return os.path.splitext(name)[1].lower() in _IMAGES  # noqa: PTH122 (pathlib takes ten times as long)


def _labels_by_folder(paths, prefix):
    top = [path[prefix:].split(os.sep, 1) for path in paths]
    names = sorted({parts[0] for parts in top if len(parts) == 2})
    if len(names) < 2 or any(len(parts) == 1 for parts in top):
        return None, ()
    number = {name: i for i, name in enumerate(names)}
    return np.array([number[parts[0]] for parts in top], np.int64), tuple(names)
