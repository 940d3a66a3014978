"""Images to train and to test with: with labels, or for what needs none, without."""

import pathlib
from collections.abc import Sequence

import numpy as np

from lci_tf import data
from lci_tf.data import share
from lci_tf.data.sets import stl10
from lci_tf.data.source import PixelArray, Source
from lci_tf.errors import InputError

_TRAIN = ("train", "trainval")
_TEST = ("test", "val", "valid", "validation")


def open_labelled(
    dataset: str,
    data_dirs: Sequence[str | pathlib.Path] = (),
    flag: str = "--dataset",
    kinds: Sequence[str] = ("class",),
    train_split: str | None = None,
    test_split: str | None = None,
    share_out: bool = True,
) -> tuple[Source, Source | None]:
    """Train and test images with the same labels: the data set's own splits, or four fifths and a fifth of one.

    Args:
      flag: what the user calls the data set, for messages.
      kinds: of labels that will do, see `Source`.
      train_split, test_split: these splits, and no others.
      share_out: whether a single split is shared out; else it is to train with, and there are no test images.

    Raises:
      InputError: there are no labels, they are of another kind, or the two splits do not have the same.
    """
    what = f"{flag}={dataset}"
    try:
        train, test = _choose_splits(dataset, data_dirs, train_split, test_split, share_out)
    except InputError as error:
        raise InputError(str(error) if str(error).startswith(what) else f"{what}: {error}") from None
    for source in (train, test) if share_out or test else (train,):
        _check_labels(source, what, kinds)
    if test and train.label_names != test.label_names:
        unlike = min(set(train.label_names) ^ set(test.label_names), default="another order")
        raise InputError(f"{what}: {train.split} and {test.split} do not have the same classes, such as {unlike}")
    return train, test


def open_images(
    dataset: str,
    data_dirs: Sequence[str | pathlib.Path] = (),
    train_split: str | None = None,
    test_split: str | None = None,
) -> tuple[Source, Source]:
    """Train and test images, whether they have labels or not; else as `open_labelled`."""
    return _choose_splits(dataset, data_dirs, train_split, test_split, will_do=lambda source: True)


def open_one(dataset: str, data_dirs: Sequence[str | pathlib.Path] = (), split: str | None = None) -> Source:
    """Images with classes, of one split: by default the one to test with, or else the first that has classes."""
    splits = [split] if split else _to_test_with(data.split_names(dataset, data_dirs))
    opened = (data.open_source(dataset, name, data_dirs) for name in splits)
    source = next((source for source in opened if _is_labelled(source)), None)
    _check_labels(source, f"--dataset={dataset}{f' --split={split}' if split else ''}", ("class",))
    return source


def open_any(dataset: str, data_dirs: Sequence[str | pathlib.Path] = (), split: str | None = None) -> Source:
    """Images with or without labels, of one split: by default the one to test with."""
    return data.open_source(dataset, split or _to_test_with(data.split_names(dataset, data_dirs))[0], data_dirs)


def _to_test_with(names):
    """Splits, those to test with first."""
    return sorted(names, key=lambda name: _TEST.index(name) if name in _TEST else len(_TEST))


def _check_labels(source, what, kinds):
    if source is None or source.label_kind == "none":
        raise InputError(f"{what}: has no labels; expected a data set with classes, such as a folder with one "
                         "folder of images per class")  # fmt: skip
    if source.label_kind not in kinds:
        several = source.label_kind == "multi-label"
        came, expected = ("several labels", "classes") if several else ("classes", "several labels per image")
        raise InputError(f"{what}: has {came} per image, which this cannot do; expected {expected}")


def labels_of(source: Source) -> np.ndarray:
    """All labels of a source, in the stored order: int64 [n], or int8 [n, classes]."""
    return np.concatenate(list(source.stream().map(lambda row: row["label"]).batch(4096).as_numpy_iterator()))


def few(source: Source, fraction: float | None = None, per_class: int | None = None, seed: int = 0) -> Source:
    """A source with fewer images, chosen at random.

    Args:
      fraction: of the images; of each class the same, and at least one.
      per_class: so many images of each class instead.
    """
    flag = f"--labels_per_class={per_class}" if per_class else f"--label_fraction={fraction:g}"
    labels = labels_of(source)
    order = np.random.default_rng(seed).permutation(len(labels))
    if source.label_kind == "multi-label":
        if per_class:
            raise InputError(f"{flag}: {source.name} has several labels per image; give --label_fraction")
        return share.of_numbers(source, np.sort(order[: max(1, round(fraction * len(labels)))]))
    chosen = []
    for number, name in enumerate(source.label_names):
        members = order[labels[order] == number]
        count = per_class or max(1, round(fraction * len(members)))
        if len(members) < count:
            raise InputError(f"{flag}: {source.name} {source.split} has only {len(members)} images of class {name}")
        chosen.append(members[:count])
    return share.of_numbers(source, np.sort(np.concatenate(chosen)))


def stl10_folds(train: Source, data_dirs: Sequence[str | pathlib.Path]) -> list[np.ndarray]:
    """The official folds of STL-10's training images, as their numbers."""
    if train.name != "stl10" or not isinstance(train, PixelArray) or train.split != "train":
        raise InputError("--folds: are numbers of images in STL-10's official binaries; give --dataset=stl10, and the "
                         "folder with train_X.bin as --data_dir")  # fmt: skip
    (data_dir,) = (pathlib.Path(place).expanduser() for place in data_dirs)
    place = data_dir if (data_dir / "train_X.bin").is_file() else data_dir / "stl10_binary"
    folds = stl10.read_folds(place)
    largest = max((fold.max(initial=-1) for fold in folds), default=-1)
    if not 0 <= largest < train.count:
        raise InputError(f"{place / 'fold_indices.txt'}: expected numbers of the {train.count:,} training images, got "
                         f"{largest} as the largest")  # fmt: skip
    return folds


def hold_out(source: Source, fraction: float, seed: int = 0) -> tuple[Source, Source]:
    """What is left, and a part held out for validation, chosen at random.

    Of every class the same share is held out, and at least one image, but never its last. Images without a label (-1)
    are in neither part. Where images have several labels, the share is of all images.
    """
    labels = labels_of(source)
    order = np.random.default_rng(seed).permutation(len(labels))
    if source.label_kind == "multi-label":
        groups = [order]
    else:
        groups = [order[labels[order] == number] for number in range(len(source.label_names))]
    kept, held_out = [], []
    for group in groups:
        count = max(0, min(len(group) - 1, max(1, round(fraction * len(group)))))
        held_out.append(group[:count])
        kept.append(group[count:])
    if not sum(map(len, held_out)):
        raise InputError(f"--validation={fraction:g}: {source.name} {source.split} has no class with two images, so "
                         "none can be held out; give --validation=0")  # fmt: skip
    kept, held_out = (share.of_numbers(source, np.sort(np.concatenate(part))) for part in (kept, held_out))
    return kept, held_out


def _choose_splits(
    dataset, data_dirs, train_split, test_split, share_out=True, will_do=None
) -> tuple[Source | None, Source | None]:
    """Of splits that are not given, the first that will do: by default, that has labels."""
    names = data.split_names(dataset, data_dirs)
    will_do = will_do or _is_labelled

    def first_of(splits):
        opened = (data.open_source(dataset, split, data_dirs) for split in splits if split in names)
        return next((source for source in opened if will_do(source)), None)

    train = data.open_source(dataset, train_split, data_dirs) if train_split else first_of(_TRAIN)
    test = data.open_source(dataset, test_split, data_dirs) if test_split else first_of(_TEST)
    if train is not None and test is not None:
        return train, test
    only = train or test or first_of(names)
    if only is None or not share_out:
        return only, None
    return share.between(only, 0.2, 1.0), share.between(only, 0.0, 0.2)


def _is_labelled(source):
    """Test splits whose labels are secret have -1 instead, says tensorflow-datasets."""
    if source.label_kind != "class":
        return source.label_kind != "none"
    return next(iter(source.stream().take(1)))["label"] >= 0
