"""Data sets prepared by tensorflow-datasets (tfds): streams of encoded images."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from lci_tf.data import fingerprints
from lci_tf.data.source import Row, Splits, StreamSource
from lci_tf.errors import InputError

# The archives of the paper's data sets, which tfds downloads or expects in `manual_dir`. It verifies their checksums.
ARCHIVES = {
    "stl10": ("stl10_binary.tar.gz",),
    "celeb_a": (
        "img_align_celeba.zip",
        "list_eval_partition.txt",
        "list_attr_celeba.txt",
        "list_landmarks_align_celeba.txt",
        "identity_CelebA.txt",
    ),
    "imagenet2012": ("ILSVRC2012_img_train.tar", "ILSVRC2012_img_val.tar"),
    "places365_small": (
        "train_256_places365standard.tar",
        "val_256.tar",
        "test_256.tar",
        "filelist_places365-standard.tar",
    ),
    "voc/2007": ("VOCtrainval_06-Nov-2007.tar", "VOCtest_06-Nov-2007.tar"),
    "voc/2012": ("VOCtrainval_11-May-2012.tar", "VOC2012test.tar"),
}
# Splits that are listed first, the best for pre-training before the others.
PREFERRED = ("unlabelled", "train", "trainval")


class NotPrepared(InputError):
    """A data set has not been prepared by tfds; `tfds_fetching` may be able to download it."""

    def __init__(self, name: str, place: pathlib.Path, why: str = "", otherwise: str = ""):
        """`why` continues the message after "not prepared in …"; `otherwise` is what to do without the archives."""
        self.name, self.place = name, place
        *others, last = ARCHIVES.get(name, ("its archive",))
        archives = f"{', '.join(others)} and {last}" if others else last
        super().__init__(
            f"--dataset={on_command_line(name)}: not prepared in {place}{why}; put {archives} into {manual_dir(place)}"
            + otherwise
        )


def default_dir() -> pathlib.Path:
    return pathlib.Path.home() / "tensorflow_datasets"


def manual_dir(place: pathlib.Path) -> pathlib.Path:
    """Where tfds looks for archives that it does not need to, or cannot, download."""
    return place / "downloads" / "manual"


def is_prepared(name: str, data_dir: pathlib.Path | None) -> bool:
    place = (data_dir or default_dir()) / name
    return any(place.glob("*/dataset_info.json")) or any(place.glob("*/*/dataset_info.json"))


def may_go_to(data_dir: pathlib.Path) -> bool:
    """Whether tfds may use a folder that has no images: it is empty, or has been used by tfds before."""
    visible = (path for path in data_dir.iterdir() if not path.name.startswith("."))  # the lock of a download is not
    return (data_dir / "downloads").is_dir() or not any(visible)


def find(name: str, data_dir: pathlib.Path | None) -> Splits:
    """The splits of a prepared data set. This downloads nothing, which `tfds_fetching` is for."""
    place = data_dir or default_dir()
    builder = builder_of(name, place)
    if not builder.is_prepared():
        raise NotPrepared(name, place, otherwise=", or have network access, and leave out --nodownload")
    splits = sorted(builder.info.splits, key=lambda s: (PREFERRED.index(s) if s in PREFERRED else len(PREFERRED), s))
    found: Splits = {split: functools.partial(_open, name, builder, split) for split in splits}
    if name.startswith("voc/") and {"train", "validation"} <= set(splits):  # tfds does not have VOC's own union of them
        found["trainval"] = functools.partial(_open, name, builder, "trainval", "train+validation")
    return found


find_imagenet2012 = functools.partial(find, "imagenet2012")
find_places365_small = functools.partial(find, "places365_small")


def on_command_line(name: str) -> str:
    return name if name in ARCHIVES else f"tfds:{name}"


def builder_of(name: str, place: pathlib.Path) -> Any:
    """tfds's `DatasetBuilder`."""
    import tensorflow_datasets as tfds

    try:
        return tfds.builder(name, data_dir=place)
    except (tfds.core.DatasetNotFoundError, ValueError, ImportError) as error:
        raise InputError(
            f"--dataset: tensorflow-datasets has no {name!r} ({first_line(error)}); "
            "python -m lci_tf.check_data --help lists what --dataset takes"
        ) from None


def first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TfdsSource(StreamSource):
    """One split, or several as one.

    Attributes:
      builder: a `tfds.core.DatasetBuilder`.
      image_key: name of the images among tfds's features.
      to_row: converts tfds's examples, in which the image is still encoded, to rows.
      parts: tfds's names of the split, or of those that it joins.
    """

    builder: Any
    image_key: str
    to_row: Callable[[dict], Row]
    parts: tuple[str, ...]

    def examples(self) -> tf.data.Dataset:
        """tfds's examples in the stored order, with the images still encoded."""
        import tensorflow_datasets as tfds

        encoded = {self.image_key: tfds.decode.SkipDecoding()}
        return self.builder.as_dataset(split="+".join(self.parts), shuffle_files=False, decoders=encoded)

    def stream(self) -> tf.data.Dataset:
        return self.examples().map(self.to_row, num_parallel_calls=tf.data.AUTOTUNE)

    def facts(self) -> Iterator[bytes]:
        """What tfds itself records: the version, and the numbers of bytes and examples."""
        split = self.builder.info.splits["+".join(self.parts)]
        yield repr((self.builder.info.full_name, split.num_bytes, split.shard_lengths)).encode()
        yield from fingerprints.of_records([str(path) for path in split.filepaths])


def _open(name, builder, split, tfds_split=None):
    import tensorflow_datasets as tfds

    features = builder.info.features
    image_key = next((k for k, f in features.items() if isinstance(f, tfds.features.Image)), None)
    if image_key is None:
        raise InputError(f"--dataset={on_command_line(name)}: has no image among its features {', '.join(features)}")
    kind, names, label = _labels(features, tfds)
    if split == "unlabelled" or (name, split) == ("voc/2012", "test"):  # of which VOC keeps the annotations secret
        kind, names, label = "none", (), None

    def to_row(example):
        row = {"image": example[image_key]}
        return row if label is None else {**row, "label": label(example)}

    return TfdsSource(
        name=on_command_line(name),
        split=split,
        count=builder.info.splits[tfds_split or split].num_examples,
        label_kind=kind,
        label_names=names,
        builder=builder,
        image_key=image_key,
        to_row=to_row,
        parts=tuple((tfds_split or split).split("+")),
    )


def _labels(features, tfds):
    """(label kind, label names, function from example to label), for a class, attributes (CelebA) or objects (VOC)."""
    attributes = dict(features.items()).get("attributes")
    if isinstance(attributes, tfds.features.FeaturesDict) and all(f.tf_dtype == tf.bool for f in attributes.values()):
        names = tuple(attributes)
        return "multi-label", names, lambda e: tf.cast(tf.stack([e["attributes"][n] for n in names]), tf.int8)
    if "labels_no_difficult" in features:
        names = tuple(features["labels"].feature.names)

        def present(example):
            def found(key):
                return tf.reduce_max(tf.one_hot(example[key], len(names), dtype=tf.int8), axis=0, keepdims=True)[0]

            any_object, counted = tf.maximum(found("labels"), 0), tf.maximum(found("labels_no_difficult"), 0)
            return 2 * counted - any_object  # 1: present; -1: only difficult objects, not counted; 0: absent

        return "multi-label", names, present
    classes = [k for k, f in features.items() if isinstance(f, tfds.features.ClassLabel)]
    if classes:
        key = "label" if "label" in classes else classes[0]
        return "class", tuple(features[key].names), lambda e: tf.cast(e[key], tf.int64)
    return "none", (), None
