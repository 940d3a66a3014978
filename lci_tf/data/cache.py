"""A small set, decoded once and kept in memory."""

import dataclasses

import tensorflow as tf
from tqdm import tqdm

from lci_tf.data.source import IndexedSource, Source
from lci_tf.errors import InputError
from lci_tf.imaging import images


@dataclasses.dataclass(frozen=True, kw_only=True)
class CachedPixels(IndexedSource):
    """Images of any sizes, as serialised tensors; an empty one could not be decoded."""

    original: Source
    table: dict[str, tf.Tensor]

    @property
    def is_encoded(self):
        return False

    def rows(self, indices):
        return tf.nest.map_structure(lambda column: tf.gather(column, indices), self.table)

    def read(self, image):
        return tf.ensure_shape(tf.io.parse_tensor(image, tf.uint8), [None, None, 3])

    def where(self, index):
        return self.original.where(index)

    def why_unreadable(self, image):
        return "could not be decoded"


def in_memory(source: Source, resize: float, limit: int = 4 * 2**30) -> CachedPixels:
    """Decodes all of `source` for trainings with this `resize`: the same crops, without decoding in every epoch.

    A stream becomes indexed by it, and so is shuffled as a whole.

    Raises:
      InputError: the decoded images take more than `limit` bytes.
    """

    def decode(row):
        image = images.pixels(source.read(row["image"]), resize)
        return {**row, "image": tf.io.serialize_tensor(image)}

    def decode_or_not(row):
        return tf.data.Dataset.from_tensors(row).map(decode).ignore_errors().concatenate(
            tf.data.Dataset.from_tensors({**row, "image": ""})
        ).take(1)  # fmt: skip

    decoded = source.stream().interleave(decode_or_not, 32, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    kept, size = [], 0
    with tqdm(total=source.count, desc=f"caching {source.split}", unit=" images", leave=False) as bar:
        for batch in decoded.batch(256):
            kept.append(batch)
            size += int(tf.reduce_sum(tf.strings.length(batch["image"])))
            bar.update(int(batch["image"].shape[0]))
            if size > limit:
                raise InputError(f"{source.name} {source.split}: the decoded images take more than "
                                 f"{limit / 2**30:.1f} GiB; train without caching them")  # fmt: skip
    table = {name: tf.concat([batch[name] for batch in kept], axis=0) for name in kept[0]}
    return CachedPixels(
        name=source.name,
        split=source.split,
        count=int(table["image"].shape[0]),
        label_kind=source.label_kind,
        label_names=source.label_names,
        notes=source.notes,
        original=source,
        table=table,
    )
