"""`Source`, the common interface of all data sets: images by index or as a stream, with or without labels."""

import abc
import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np
import tensorflow as tf

from lci_tf import files
from lci_tf.data import fingerprints
from lci_tf.errors import InputError
from lci_tf.imaging import decoding

LabelKind = Literal["none", "class", "multi-label"]
Row = dict[str, tf.Tensor]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source(abc.ABC):
    """Images of one split of one data set.

    A *row* stands for an image in the pipeline. It has `"image"`, see `read`, and, if there are labels, `"label"`: an
    int64 class, or an int8 vector with 1 for present, 0 for absent and -1 for "not to be counted".

    Attributes:
      name: name of the data set on the command line.
      split: name of the split.
      count: number of images; None if unknown before reading them all.
      label_kind: `"none"`, `"class"` or `"multi-label"`.
      label_names: names of the classes or attributes, in the order of their numbers.
      notes: sentences that tell the user how the files were interpreted.
    """

    name: str
    split: str
    count: int | None
    label_kind: LabelKind = "none"
    label_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_encoded(self) -> bool:
        """Whether images are encoded files, not pixels."""
        return True

    def read(self, image: tf.Tensor) -> tf.Tensor:
        """From a row's `"image"` to its contents: a scalar string (encoded) or uint8 [height, width, 3]."""
        return image

    @abc.abstractmethod
    def stream(self) -> tf.data.Dataset:
        """One pass over all rows, always in the same order."""

    @abc.abstractmethod
    def where(self, index: int) -> str:
        """Where image `index` comes from, for messages."""

    def why_unreadable(self, image: bytes) -> str:
        """Why a row with this `"image"` could not be read, for messages."""
        return decoding.why_refused(image)

    @functools.cached_property
    def fingerprint(self) -> dict[str, str | None]:
        """Identifies these images wherever they are stored: hexadecimal digits for `"contents"` and `"labels"`.

        It covers the names and sizes of files, not their contents, so a million files take seconds. See `fingerprints`.
        """
        labels = fingerprints.digest(self.label_facts()) if self.label_kind != "none" else None
        return {"contents": fingerprints.digest(self.facts()), "labels": labels}

    def facts(self) -> Iterator[bytes]:
        """The bytes that go into the fingerprint of the contents; by default the first rows."""
        for row in self.stream().take(fingerprints.SAMPLES):
            yield from (tf.io.serialize_tensor(row[name]).numpy() for name in sorted(row))

    def label_facts(self) -> Iterator[bytes]:
        """The bytes that go into the fingerprint of the labels, unless they are stored with the images."""
        yield repr(self.label_names).encode()


@dataclasses.dataclass(frozen=True, kw_only=True)
class IndexedSource(Source):
    """Images that can be read in any order, by their indices 0 … count-1."""

    count: int  # always known

    @abc.abstractmethod
    def rows(self, indices: tf.Tensor) -> Row:
        """The n rows at `indices`, int64 [n]. Must be fast, as it runs once per chunk; files are read in `read`."""

    def stream(self) -> tf.data.Dataset:
        return tf.data.Dataset.range(self.count).batch(256).map(self.rows).unbatch()


class StreamSource(Source):
    """Images that can only be read one after the other."""

    def where(self, index: int) -> str:
        return f"image {index} of {self.name} {self.split}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageFiles(IndexedSource):
    """One file per image. `labels` is int64 [count], int8 [count, classes], or None."""

    paths: Sequence[str]
    labels: np.ndarray | None = None
    _rows: Row = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self):
        # Converted to tensors once, outside any graph, so that 300,000 names are not copied into each function.
        with tf.init_scope():
            rows = {"image": tf.constant([os.fsencode(path) for path in self.paths], tf.string)}
            if self.labels is not None:
                rows["label"] = tf.constant(self.labels)
        object.__setattr__(self, "_rows", rows)

    def rows(self, indices: tf.Tensor) -> Row:
        return tf.nest.map_structure(lambda column: tf.gather(column, indices), self._rows)

    def read(self, image: tf.Tensor) -> tf.Tensor:
        return tf.io.read_file(image)

    def where(self, index: int) -> str:
        return self.paths[index]

    def facts(self) -> Iterator[bytes]:
        return fingerprints.of_files(self.paths)

    def label_facts(self) -> Iterator[bytes]:
        yield from super().label_facts()
        if self.labels is not None:
            yield self.labels.tobytes()

    def why_unreadable(self, image: bytes) -> str:
        try:
            return decoding.why_refused(files.as_path(os.fsdecode(image)).read_bytes())
        except (OSError, tf.errors.OpError) as error:
            why = getattr(error, "strerror", None) or str(error).partition("\n")[0]
            return f"cannot be read: {why or type(error).__name__}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PixelArray(IndexedSource):
    """Images of one size in one array.

    Attributes:
      pixels: uint8 [count, …]; may be a memory map, as only what is needed is read.
      to_images: converts n entries of `pixels` to images [n, height, width, 3].
      labels: int64 [count], or None.
    """

    pixels: np.ndarray
    to_images: Callable[[np.ndarray], np.ndarray] = np.asarray
    labels: np.ndarray | None = None

    @property
    def is_encoded(self) -> bool:
        return False

    def rows(self, indices: tf.Tensor) -> Row:
        # One call per batch, so that it holds Python's lock for microseconds only.
        images = tf.numpy_function(lambda i: np.ascontiguousarray(self.to_images(self.pixels[i])), [indices], tf.uint8)
        rows = {"image": tf.ensure_shape(images, [None, *self.to_images(self.pixels[:1]).shape[1:]])}
        if self.labels is not None:
            rows["label"] = tf.gather(self.labels, indices)
        return rows

    def where(self, index: int) -> str:
        return f"image {index} of {self.name} {self.split}"

    def facts(self) -> Iterator[bytes]:
        return fingerprints.of_array(self.pixels)

    def label_facts(self) -> Iterator[bytes]:
        yield from super().label_facts()
        if self.labels is not None:
            yield self.labels.tobytes()


def count_of(source: Source) -> int:
    """The number of images of a source that must know it; else raises."""
    if source.count is None:
        raise ValueError(f"{source.name} {source.split}: the number of images must be known")
    return source.count


def check_batch(batch_size: int, name: str, split: str, count: int | None) -> None:
    """Refuses batches that are larger than a split of a data set, in which images would repeat."""
    if count is not None and batch_size > count:
        raise InputError(f"--batch_size={batch_size}: larger than the data set, as {name} {split} has {count:,} "
                         "images; give a smaller one, or more images")  # fmt: skip


def joined(sources: Sequence[Source]) -> Source:
    """Several folders as one source, in the given order; labelled if all have the same classes."""
    if len(sources) == 1:
        return sources[0]
    folders = []
    for source in sources:
        if not isinstance(source, ImageFiles):
            raise InputError(f"--data_dir: only folders of image files can be joined, and {source.name} is not one")
        folders.append(source)
    first = folders[0]
    same_labels = all((s.label_kind, s.label_names) == (first.label_kind, first.label_names) for s in folders)
    labels = [s.labels for s in folders if s.labels is not None] if same_labels else []
    notes = [note for s in folders for note in s.notes]
    if not same_labels:
        notes.append("labels are not used: the joined folders do not have the same classes")
    return ImageFiles(
        name=first.name,
        split=first.split,
        count=sum(s.count for s in folders),
        label_kind=first.label_kind if labels else "none",
        label_names=first.label_names if labels else (),
        notes=tuple(notes),
        paths=[path for s in folders for path in s.paths],
        labels=np.concatenate(labels) if labels else None,
    )


# A data set is a function from its directory (or None) to its splits by name, the one for pre-training first. Each
# split is a function that opens it.
Splits = dict[str, Callable[[], Source]]
FindSplits = Callable[[pathlib.Path | None], Splits]
