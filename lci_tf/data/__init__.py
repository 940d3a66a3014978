"""Where images come from: `open_source` opens a split of any data set as a `Source`; `pipeline` makes batches of it.

`sets` has a module per data set, `labelled` chooses images for training and testing evaluations, `share` selects some
images of a source, and `draws` makes all random draws of a training.
"""

import os
import pathlib
from collections.abc import Sequence

from lci_tf import files
from lci_tf.config import names
from lci_tf.data.sets import tfds_fetching, tfds_sets
from lci_tf.data.source import Source, Splits, joined
from lci_tf.errors import InputError

_OFFERED = {
    "Crops": "crops",
    "InputReport": "input_report",
    "PixelArray": "source",
    "evaluation_batches": "pipeline",
    "open_images": "labelled",
    "open_labelled": "labelled",
    "training_batches": "pipeline",
}
__all__ = ["Source", "fetch", "open_source", "split_names", *_OFFERED]
__getattr__, __dir__ = names.offer(__name__, _OFFERED)


def split_names(dataset: str, data_dirs: Sequence[str | pathlib.Path] = ()) -> list[str]:
    """Names of the available splits, the one for pre-training first; of several directories, those of the first."""
    return list(_find_splits(dataset, _directories(data_dirs)[0]))


def open_source(dataset: str, split: str | None = None, data_dirs: Sequence[str | pathlib.Path] = ()) -> Source:
    """Opens the images of one split of a data set.

    Args:
      dataset: a name in `lci_tf.config.names.DATASETS`, or `tfds:NAME` for any other data set of tensorflow-datasets.
      split: name of the split; None for the one for pre-training.
      data_dirs: folders of the data set; several folders of images are joined into one source.
    """
    return joined([_open_one(dataset, split, data_dir) for data_dir in _directories(data_dirs)])


def fetch(dataset: str, data_dirs: Sequence[str | pathlib.Path] = ()) -> None:
    """Downloads and prepares a data set of tensorflow-datasets if it is missing; does nothing for any other."""
    for data_dir in _directories(data_dirs):
        try:
            _find_splits(dataset, data_dir)
        except tfds_sets.NotPrepared as missing:
            tfds_fetching.fetch(missing.name, missing.place)
        except InputError:
            continue  # opening the data set will report this, with the name of the flag


def _directories(data_dirs):
    if isinstance(data_dirs, (str, os.PathLike)):
        data_dirs = [data_dirs]
    if len(data_dirs) > 1:
        for comma in (",", ", "):  # absl strips the blanks
            whole = comma.join(map(os.fspath, data_dirs))
            if not files.is_bucket(whole) and files.as_path(whole).is_dir():
                raise InputError(f"--data_dir={whole}: commas separate folders; put a name that contains a comma in "
                                 f"double quotes: --data_dir='\"{whole}\"'")  # fmt: skip
    return [files.as_path(d) for d in data_dirs] or [None]


def _open_one(dataset, split, data_dir):
    splits = _find_splits(dataset, data_dir)
    split = split or next(iter(splits))
    if split not in splits:
        place = f" in {data_dir}" if data_dir else ""
        raise InputError(f"--split={split}: {dataset}{place} has {', '.join(splits)}")
    return splits[split]()


def _find_splits(dataset, data_dir) -> Splits:
    names.check_dataset(dataset)
    if data_dir is not None and files.is_bucket(data_dir) and dataset not in names.IN_BUCKETS:
        known = " and ".join(names.IN_BUCKETS)
        raise InputError(f"--dataset={dataset}: cannot be read from a bucket, {data_dir}; only {known} can")
    if data_dir is not None and not data_dir.is_dir():
        raise InputError(f"--data_dir={data_dir}: {files.why_no_folder(data_dir)}")
    if dataset.startswith(names.TFDS):
        return tfds_sets.find(dataset.removeprefix(names.TFDS), data_dir)
    return names.load(names.DATASETS[dataset])(data_dir)
