"""`--cache`: decodes a small data set once and keeps its pixels in memory."""

import dataclasses

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from lci_tf.data.source import IndexedSource, Row, Source
from lci_tf.errors import InputError
from lci_tf.imaging import images


@dataclasses.dataclass(frozen=True, kw_only=True)
class CachedPixels(IndexedSource):
    """Decoded images of any sizes, in memory.

    Attributes:
      original: the source that they were decoded from.
      images: object array [count] of serialised uint8 tensors as bytes; empty for images that could not be decoded.
        Not a tensor, which would be a second copy.
      others: the other columns of the rows, such as labels.
    """

    original: Source
    images: np.ndarray
    others: dict[str, tf.Tensor]

    @property
    def is_encoded(self) -> bool:
        return False

    def rows(self, indices: tf.Tensor) -> Row:
        others = {name: tf.gather(column, indices) for name, column in self.others.items()}
        found = tf.numpy_function(lambda i: self.images[i], [indices], tf.string)
        return {"image": tf.ensure_shape(found, indices.shape), **others}

    def read(self, image: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tf.io.parse_tensor(image, tf.uint8), [None, None, 3])

    def where(self, index: int) -> str:
        return self.original.where(index)

    def why_unreadable(self, image: bytes) -> str:
        return "could not be decoded"

    @property
    def fingerprint(self) -> dict[str, str | None]:
        return self.original.fingerprint


def in_memory(source: Source, resize: float, limit: int = 4 * 2**30) -> CachedPixels:
    """Decodes all of `source`, so that a training with this `resize` gets the same crops without decoding every epoch.

    A stream becomes an indexed source, and is therefore shuffled as a whole.

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
    kept, others, size = [], [], 0
    with tqdm(total=source.count, desc=f"caching {source.split}", unit=" images", leave=False) as bar:
        for batch in decoded.batch(256):
            kept.append(batch.pop("image").numpy())
            others.append(batch)
            size += sum(map(len, kept[-1]))
            bar.update(len(kept[-1]))
            if size > limit:
                raise InputError(f"{source.name} {source.split}: the decoded images take more than "
                                 f"{limit / 2**30:.1f} GiB; train without --cache")  # fmt: skip
    return CachedPixels(
        name=source.name,
        split=source.split,
        count=sum(map(len, kept)),
        label_kind=source.label_kind,
        label_names=source.label_names,
        notes=source.notes,
        original=source,
        images=np.concatenate(kept),
        others={name: tf.concat([batch[name] for batch in others], axis=0) for name in others[0]},
    )
