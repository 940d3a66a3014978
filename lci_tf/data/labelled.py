"""Chooses images for training and testing: splits with labels (or without), few labels, folds, held-out images."""

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from lci_tf import data
from lci_tf.data import share
from lci_tf.data.sets import stl10
from lci_tf.data.sets.tfds_sets import TfdsSource
from lci_tf.data.source import ImageFiles, PixelArray, Source
from lci_tf.errors import InputError

_TRAIN = ("trainval", "train")  # preferred in this order, if they share no images with the test split
_TEST = ("test", "val", "valid", "validation")


def open_labelled(
    dataset: str,
    data_dirs: Sequence[str | pathlib.Path] = (),
    flag: str = "--dataset",
    kinds: Sequence[str] = ("class",),
    train_split: str | None = None,
    test_split: str | None = None,
) -> tuple[Source, Source]:
    """Training and test images with the same labels: the data set's own splits, or four fifths and a fifth of one.

    Args:
      flag: the flag that names the data set, for messages.
      kinds: the kinds of labels that are accepted, see `Source.label_kind`.
      train_split, test_split: names of the splits to use; by default they are chosen.

    Raises:
      InputError: there are no labels, or none of an accepted kind; or the two splits have different labels, or share
        images.
    """
    what = f"{flag}={dataset}"
    try:
        train, test = _choose_splits(dataset, data_dirs, train_split, test_split)
    except InputError as error:
        raise InputError(str(error) if str(error).startswith(what) else f"{what}: {error}") from None
    for source in (train, test):
        _check_labels(source, what, kinds)
    if train.label_names != test.label_names:
        unlike = min(set(train.label_names) ^ set(test.label_names), default="another order")
        raise InputError(f"{what}: {train.split} and {test.split} do not have the same classes, such as {unlike}")
    return train, test


def open_images(
    dataset: str,
    data_dirs: Sequence[str | pathlib.Path] = (),
    train_split: str | None = None,
    test_split: str | None = None,
) -> tuple[Source, Source]:
    """Training and test images like those of `open_labelled`, but with or without labels."""
    return _choose_splits(dataset, data_dirs, train_split, test_split, is_suitable=lambda source: True)


def open_one(dataset: str, data_dirs: Sequence[str | pathlib.Path] = (), split: str | None = None) -> Source:
    """Images with classes, of one split: by default the one for testing, or else the first that has classes."""
    splits = [split] if split else _test_first(data.split_names(dataset, data_dirs))
    opened = (data.open_source(dataset, name, data_dirs) for name in splits)
    source: Any = next((source for source in opened if _is_labelled(source)), None)
    _check_labels(source, f"--dataset={dataset}{f' --split={split}' if split else ''}", ("class",))
    return source


def open_any(dataset: str, data_dirs: Sequence[str | pathlib.Path] = (), split: str | None = None) -> Source:
    """Images with or without labels, of one split: by default the one for testing."""
    return data.open_source(dataset, split or _test_first(data.split_names(dataset, data_dirs))[0], data_dirs)


def _test_first(names):
    """Names of splits, those for testing first."""
    return sorted(names, key=lambda name: _TEST.index(name) if name in _TEST else len(_TEST))


def _check_labels(source, what, kinds):
    if source is None or source.label_kind == "none":
        raise InputError(f"{what}: has no labels; expected a data set with classes, such as a folder with one "
                         "folder of images per class")  # fmt: skip
    if source.label_kind not in kinds:
        several = source.label_kind == "multi-label"
        came, expected = ("several labels", "classes") if several else ("classes", "several labels per image")
        raise InputError(f"{what}: has {came} per image, which is not supported here; expected {expected}")


def labels_of(source: Source) -> np.ndarray:
    """All labels of a source in the stored order: int64 [n], or int8 [n, classes]."""
    return np.concatenate(list(source.stream().map(lambda row: row["label"]).batch(4096).as_numpy_iterator()))


def few(source: Source, fraction: float | None = None, per_class: int | None = None, seed: int = 0) -> Source:
    """A random selection of a source's images.

    Args:
      fraction: share of the images, from 0 to 1; the same of each class, and at least one image.
      per_class: number of images of each class, instead of `fraction`.
    """
    flag = f"--labels_per_class={per_class}" if per_class else f"--label_fraction={fraction:g}"
    labels = labels_of(source)
    order = np.random.default_rng(seed).permutation(len(labels))
    portion = 1.0 if fraction is None else fraction
    if source.label_kind == "multi-label":
        if per_class:
            raise InputError(f"{flag}: {source.name} has several labels per image; give --label_fraction")
        return share.of_numbers(source, np.sort(order[: max(1, round(portion * len(labels)))]))
    chosen = []
    for number, name in enumerate(source.label_names):
        members = order[labels[order] == number]
        count = per_class or max(1, round(portion * len(members)))
        if len(members) < count:
            raise InputError(f"{flag}: {source.name} {source.split} has only {len(members)} images of class {name}")
        chosen.append(members[:count])
    return share.of_numbers(source, np.sort(np.concatenate(chosen)))


def stl10_folds(train: Source, data_dirs: Sequence[str | pathlib.Path]) -> list[np.ndarray]:
    """The official folds of STL-10's training images: an array of image indices for each."""
    if train.name != "stl10" or not isinstance(train, PixelArray) or train.split != "train":
        raise InputError("--folds: are defined for STL-10's official binaries; give --dataset=stl10, and the "
                         "folder with train_X.bin as --data_dir")  # fmt: skip
    (data_dir,) = (pathlib.Path(place).expanduser() for place in data_dirs)
    place = data_dir if (data_dir / "train_X.bin").is_file() else data_dir / "stl10_binary"
    folds = stl10.read_folds(place)
    largest = max((fold.max(initial=-1) for fold in folds), default=-1)
    if not 0 <= largest < train.count:
        raise InputError(f"{place / 'fold_indices.txt'}: expected indices of the {train.count:,} training images, but "
                         f"the largest is {largest}")  # fmt: skip
    return folds


def hold_out(source: Source, fraction: float, seed: int = 0) -> tuple[Source, Source]:
    """Splits a source at random into (the rest, a share held out for validation).

    The same share of each class is held out: at least one image, but never all. Images without a label (-1) are in
    neither part. If images have several labels, the share is of all images.
    """
    labels = labels_of(source)
    order = np.random.default_rng(seed).permutation(len(labels))
    if source.label_kind == "multi-label":
        groups = [order]
    else:
        groups = [order[labels[order] == number] for number in range(len(source.label_names))]
    kept: list[np.ndarray] = []
    held_out: list[np.ndarray] = []
    for group in groups:
        count = max(0, min(len(group) - 1, max(1, round(fraction * len(group)))))
        held_out.append(group[:count])
        kept.append(group[count:])
    if not sum(map(len, held_out)):
        raise InputError(f"--validation={fraction:g}: {source.name} {source.split} has no class with two images, so "
                         "none can be held out; give --validation=0")  # fmt: skip
    left, validation = (share.of_numbers(source, np.sort(np.concatenate(part))) for part in (kept, held_out))
    return left, validation


def _choose_splits(dataset, data_dirs, train_split, test_split, is_suitable=None) -> tuple[Any, Any]:
    """Opens the splits that are given, and for the others the first suitable ones: by default, those with labels."""
    names = data.split_names(dataset, data_dirs)
    is_suitable = is_suitable or _is_labelled

    def suitable(splits):
        opened = (data.open_source(dataset, split, data_dirs) for split in splits if split in names)
        return (source for source in opened if is_suitable(source))

    train: Source | None
    test = data.open_source(dataset, test_split, data_dirs) if test_split else next(suitable(_TEST), None)
    if train_split:
        train = data.open_source(dataset, train_split, data_dirs)
    else:
        candidates = list(suitable(_TRAIN))
        apart = (source for source in candidates if test is None or not _shared(source, test))
        train = next(apart, candidates[0] if candidates else None)
    if train is not None and test is not None:
        advice = "give others as --split and --test_split"
        if train.split == test.split:
            raise InputError(f"{train.split} cannot be for training and for testing; {advice}")
        if shared := _shared(train, test):
            raise InputError(f"{train.split} and {test.split} share {shared}; {advice}")
        return train, test
    only = train or test or next(suitable(names), None)
    if only is None:
        return None, None
    return share.between(only, 0.2, 1.0), share.between(only, 0.0, 0.2)


def _shared(first, second) -> str | None:
    """The images that are in both splits, in words; only files and splits of tensorflow-datasets are compared."""
    if isinstance(first, ImageFiles) and isinstance(second, ImageFiles):
        paths = set(first.paths) & set(second.paths)
        return f"{len(paths):,} images, such as {min(paths)}" if paths else None
    if isinstance(first, TfdsSource) and isinstance(second, TfdsSource):
        parts = set(first.parts) & set(second.parts)
        return f"the images of {', '.join(sorted(parts))}" if parts else None
    return None


def _is_labelled(source):
    """Whether there are labels; in tensorflow-datasets, test splits with secret labels have -1 instead."""
    if source.label_kind != "class":
        return source.label_kind != "none"
    return next(iter(source.stream().take(1)))["label"] >= 0
