"""What a data set is to the rest of lci_tf: images by number or as a stream, with labels or without."""

import abc
import dataclasses
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import tensorflow as tf

from lci_tf import files
from lci_tf.errors import InputError
from lci_tf.imaging import decoding

LabelKind = Literal["none", "class", "multi-label"]
Row = dict[str, tf.Tensor]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source(abc.ABC):
    """Images of one split of one data set.

    A *row* is what the pipeline passes on for an image: `"image"` and, if there are labels, `"label"`: an int64
    class, or an int8 vector with 1 for present, 0 for absent and -1 for not to be counted.

    Attributes:
      name: the data set, as on the command line.
      split: which part of it.
      count: how many images; None if only reading them all would tell.
      label_kind: `"none"`, `"class"` or `"multi-label"`.
      label_names: in the order of the label's numbers.
      notes: what the user should know about how the data were found, a sentence each.
    """

    name: str
    split: str
    count: int | None
    label_kind: LabelKind = "none"
    label_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_encoded(self) -> bool:
        """Whether images come as encoded files, and not as pixels."""
        return True

    def read(self, image: tf.Tensor) -> tf.Tensor:
        """A row's `"image"` to its contents: a scalar string (encoded) or uint8 [height, width, 3]."""
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


class IndexedSource(Source):
    """Images that can be had in any order, by their number 0 … count-1."""

    @abc.abstractmethod
    def rows(self, indices: tf.Tensor) -> Row:
        """int64 [n] to n rows. Must be cheap: it runs once a chunk; the reading is in `read`."""

    def stream(self):
        return tf.data.Dataset.range(self.count).batch(256).map(self.rows).unbatch()


class StreamSource(Source):
    """Images that come one after the other, and only so."""

    def where(self, index: int) -> str:
        return f"image {index} of {self.name} {self.split}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageFiles(IndexedSource):
    """One file per image. `labels` is int64 [count], int8 [count, classes], or None."""

    paths: Sequence[str]
    labels: np.ndarray | None = None

    def __post_init__(self):
        # Once as tensors, outside any graph: 300,000 names must not be copied into each function that uses them.
        with tf.init_scope():
            rows = {"image": tf.constant([os.fsencode(path) for path in self.paths], tf.string)}
            if self.labels is not None:
                rows["label"] = tf.constant(self.labels)
        object.__setattr__(self, "_rows", rows)

    def rows(self, indices):
        return tf.nest.map_structure(lambda column: tf.gather(column, indices), self._rows)

    def read(self, image):
        return tf.io.read_file(image)

    def where(self, index):
        return self.paths[index]

    def why_unreadable(self, image):
        try:
            return decoding.why_refused(files.place(os.fsdecode(image)).read_bytes())
        except (OSError, tf.errors.OpError) as error:
            why = getattr(error, "strerror", None) or str(error).partition("\n")[0]
            return f"cannot be read: {why or type(error).__name__}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PixelArray(IndexedSource):
    """Images of one size in one array.

    Attributes:
      pixels: uint8 [count, …], perhaps a memory map: only what is asked for is read.
      to_images: what makes [n, height, width, 3] of n entries of it.
      labels: int64 [count], or None.
    """

    pixels: np.ndarray
    to_images: Callable[[np.ndarray], np.ndarray] = np.asarray
    labels: np.ndarray | None = None

    @property
    def is_encoded(self):
        return False

    def rows(self, indices):
        # Once per batch, so that Python's lock is held for microseconds.
        images = tf.numpy_function(lambda i: np.ascontiguousarray(self.to_images(self.pixels[i])), [indices], tf.uint8)
        rows = {"image": tf.ensure_shape(images, [None, *self.to_images(self.pixels[:1]).shape[1:]])}
        if self.labels is not None:
            rows["label"] = tf.gather(self.labels, indices)
        return rows

    def where(self, index):
        return f"image {index} of {self.name} {self.split}"


def joined(sources: Sequence[Source]) -> Source:
    """Several folders as one source, in the order given. Labels stay if all have the same."""
    if len(sources) == 1:
        return sources[0]
    for source in sources:
        if not isinstance(source, ImageFiles):
            raise InputError(f"--data_dir: only folders of image files can be joined, and {source.name} is not one")
    first = sources[0]
    same_labels = all((s.label_kind, s.label_names) == (first.label_kind, first.label_names) for s in sources)
    labelled = same_labels and first.labels is not None
    notes = [note for s in sources for note in s.notes]
    if not same_labels:
        notes.append("labels are not used: the folders that were joined do not have the same classes")
    return ImageFiles(
        name=first.name,
        split=first.split,
        count=sum(s.count for s in sources),
        label_kind=first.label_kind if labelled else "none",
        label_names=first.label_names if labelled else (),
        notes=tuple(notes),
        paths=[path for s in sources for path in s.paths],
        labels=np.concatenate([s.labels for s in sources]) if labelled else None,
    )


# What a data set offers: a function from its directory (or none) to its splits, the one to pre-train on first. The
# splits are opened only when asked for.
Splits = dict[str, Callable[[], Source]]
FindSplits = Callable[[pathlib.Path | None], Splits]
