"""Where images come from. `open_source` gives any split of any data set; `pipeline` makes batches of it."""

import functools
import os
import pathlib
from collections.abc import Sequence

from lci_tf import files
from lci_tf.config import presets
from lci_tf.data.sets import celeba, folder, stl10, synthetic, tfds_sets, tfrecord, voc
from lci_tf.data.source import FindSplits, Source, Splits, joined
from lci_tf.errors import InputError

# A new data set is one line here: what finds its splits below a directory.
DATASETS: dict[str, FindSplits] = {
    "synthetic": synthetic.find,
    "folder": folder.find,
    "tfrecord": tfrecord.find,
    "stl10": stl10.find,
    "celeb_a": celeba.find,
    "imagenet2012": functools.partial(tfds_sets.find, "imagenet2012"),
    "places365_small": functools.partial(tfds_sets.find, "places365_small"),
    "voc/2007": functools.partial(voc.find, year="2007"),
    "voc/2012": functools.partial(voc.find, year="2012"),
}
IN_BUCKETS = {"folder", "tfrecord"}


def split_names(dataset: str, data_dirs: Sequence[str | pathlib.Path] = ()) -> list[str]:
    """The splits that are there (in the first directory, if there are several), the one to pre-train on first."""
    return list(_find_splits(dataset, _directories(data_dirs)[0]))


def open_source(dataset: str, split: str | None = None, data_dirs: Sequence[str | pathlib.Path] = ()) -> Source:
    """Images of a data set.

    Args:
      dataset: a name in `DATASETS`, or `tfds:NAME` for any other image data set of tensorflow-datasets.
      split: which part; None for the one to pre-train on.
      data_dirs: where it is. Several folders of images are joined.
    """
    return joined([_open_one(dataset, split, data_dir) for data_dir in _directories(data_dirs)])


def prepare(dataset: str, data_dirs: Sequence[str | pathlib.Path] = ()) -> None:
    """Has tensorflow-datasets download and prepare the data set."""
    name = dataset.removeprefix(presets.TFDS)
    if name == dataset and name not in tfds_sets.ARCHIVES:
        raise InputError(f"--download: --dataset={dataset} is not a data set of tensorflow-datasets")
    tfds_sets.prepare(name, _directories(data_dirs)[0])


def _directories(data_dirs):
    if isinstance(data_dirs, (str, os.PathLike)):
        data_dirs = [data_dirs]
    return [files.place(d) for d in data_dirs] or [None]


def _open_one(dataset, split, data_dir):
    splits = _find_splits(dataset, data_dir)
    split = split or next(iter(splits))
    if split not in splits:
        place = f" in {data_dir}" if data_dir else ""
        raise InputError(f"--split={split}: {dataset}{place} has {', '.join(splits)}")
    return splits[split]()


def _find_splits(dataset, data_dir) -> Splits:
    presets.check_name(dataset)
    if data_dir is not None and files.is_bucket(data_dir) and dataset not in IN_BUCKETS:
        known = " and ".join(sorted(IN_BUCKETS))
        raise InputError(f"--dataset={dataset}: is not read from a bucket, {data_dir}; only {known} are")
    if data_dir is not None and not data_dir.is_dir():
        raise InputError(f"--data_dir={data_dir}: no such folder")
    if dataset.startswith(presets.TFDS):
        return tfds_sets.find(dataset.removeprefix(presets.TFDS), data_dir)
    return DATASETS[dataset](data_dir)
