"""TFRecord shards of encoded images in `tf.train.Example`s, under the keys that common converters use."""

import dataclasses
import functools
import pathlib
import re
from collections.abc import Iterator

import tensorflow as tf
from google.protobuf import message

from lci_tf.data import fingerprints
from lci_tf.data.sets.folder import SPLITS
from lci_tf.data.source import Splits, StreamSource
from lci_tf.errors import InputError

IMAGE_KEYS = ("image/encoded", "image", "image_raw", "encoded", "jpeg", "png")
LABEL_KEYS = ("image/class/label", "label", "class")


def find(data_dir: pathlib.Path | None) -> Splits:
    """Groups files such as `train-00000-of-00010.tfrecord` or `val.tfrecord` by split; others form the split `all`."""
    if data_dir is None or not data_dir.is_dir():
        raise InputError(f"--dataset=tfrecord needs --data_dir=DIR, a folder with TFRecord shards; got {data_dir}")
    shards: dict[str, list[str]] = {}
    for path in sorted(p for p in data_dir.iterdir() if "tfrecord" in p.name):
        words = re.split(r"[-_.]", path.name)
        shards.setdefault(next((w for w in words if w in SPLITS), "all"), []).append(str(path))
    if not shards:
        raise InputError(f"--data_dir={data_dir}: no file with 'tfrecord' in its name")
    in_order = [split for split in ("train", "all", *SPLITS[1:]) if split in shards]
    return {split: functools.partial(_open, data_dir, split, shards[split]) for split in in_order}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TFRecords(StreamSource):
    shards: list[str]
    image_key: str
    label_key: str | None

    def stream(self) -> tf.data.Dataset:
        # With these defaults, a record without an image is an unreadable image, and one without a label is unlabelled.
        wanted = {self.image_key: tf.io.FixedLenFeature([], tf.string, default_value="")}
        if self.label_key:
            wanted[self.label_key] = tf.io.FixedLenFeature([], tf.int64, default_value=-1)

        def to_row(record):
            example = tf.io.parse_single_example(record, wanted)
            row = {"image": example[self.image_key]}
            return {**row, "label": example[self.label_key]} if self.label_key else row

        records = tf.data.TFRecordDataset(self.shards, compression_type=_compression(self.shards[0]))
        return records.map(to_row, num_parallel_calls=tf.data.AUTOTUNE)

    def facts(self) -> Iterator[bytes]:
        return fingerprints.of_records(self.shards)


def _open(data_dir, split, shards):
    if len({_compression(shard) for shard in shards}) > 1:
        raise InputError(f"--data_dir={data_dir}: some shards of {split} are compressed (.gz) and some are not")
    try:
        first = next(iter(tf.data.TFRecordDataset(shards, compression_type=_compression(shards[0])).take(1)), None)
    except tf.errors.DataLossError:
        raise InputError(f"{shards[0]}: not a TFRecord file, or damaged") from None
    if first is None:
        raise InputError(f"{shards[0]}: holds no record")
    try:
        features = tf.train.Example.FromString(first.numpy()).features.feature
    except message.DecodeError:
        raise InputError(f"{shards[0]}: its records are not of the type tf.train.Example") from None
    image_key = next((k for k in IMAGE_KEYS if k in features and features[k].bytes_list.value), None)
    if image_key is None:
        raise InputError(f"{shards[0]}: no encoded image under {', '.join(IMAGE_KEYS)}; found {', '.join(features)}")
    label_key = next((k for k in LABEL_KEYS if k in features and features[k].int64_list.value), None)
    names_file = data_dir / "labels.txt"
    notes: tuple[str, ...] = ()
    if label_key and not names_file.is_file():
        notes = (f"labels are not used: {names_file}, with a class name per line, is missing",)
        label_key = None
    names = names_file.read_text().splitlines() if label_key else []
    return TFRecords(
        name="tfrecord",
        split=split,
        count=None,
        label_kind="class" if label_key else "none",
        label_names=tuple(name.strip() for name in names if name.strip()),
        notes=notes,
        shards=shards,
        image_key=image_key,
        label_key=label_key,
    )


def _compression(path):
    return "GZIP" if path.endswith((".gz", ".gzip")) else ""
