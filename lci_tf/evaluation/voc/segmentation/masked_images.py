"""The images of a split with their masks, and checks that they match."""

import concurrent.futures
import dataclasses
import functools
import os
import pathlib

import numpy as np
from tqdm import tqdm

from lci_tf.data import fingerprints
from lci_tf.errors import InputError
from lci_tf.evaluation.voc.segmentation import masks
from lci_tf.evaluation.voc.segmentation.masks import VOID
from lci_tf.imaging import decoding

_EXIF_ORIENTATION, _LYING = 0x0112, (5, 6, 7, 8)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskedImages:
    """Images of one split, each with a mask of its size.

    Attributes:
      split: name of the split.
      images, masks: paths, in the same order.
      names: names of the classes.
      table: uint8 [256], the class of every number in a mask; see `masks.table_of`.
    """

    split: str
    images: tuple[str, ...]
    masks: tuple[str, ...]
    names: tuple[str, ...]
    table: np.ndarray

    @property
    def count(self) -> int:
        return len(self.images)

    @functools.cached_property
    def fingerprint(self) -> dict[str, str]:
        """Identifies these images and masks, as `Source.fingerprint` does.

        Masks are labels, and a corrected mask may be as large as before, so their contents are read.
        """
        labels = [*fingerprints.of_contents(self.masks), repr(self.names).encode(), self.table.tobytes()]
        return {"contents": fingerprints.digest(fingerprints.of_files(self.images)),
                "labels": fingerprints.digest(labels)}  # fmt: skip

    @functools.cached_property
    def numbers(self) -> np.ndarray:
        """The number of each class in masks, uint8 [classes]."""
        return np.array([np.flatnonzero(self.table == i)[0] for i in range(len(self.names))], np.uint8)

    def name_of(self, number: int) -> str:
        """The name of an image, relative to the folder that contains all of them, without the ending."""
        folder = os.path.commonpath([os.path.dirname(path) for path in self.images])  # noqa: PTH120
        return str(pathlib.Path(self.images[number]).relative_to(folder).with_suffix(""))

    def mask(self, number: int) -> np.ndarray:
        """The class of each pixel, or `VOID`, uint8 [height, width]."""
        path = self.masks[number]
        return masks.classes_of(masks.read(path), self.table, path, self.names)

    def check(self) -> np.ndarray:
        """Counts the pixels of each class, and of void at the end: int64 [classes + 1].

        Raises:
          InputError: if an image cannot be read, or a mask has another size than its image or an unknown number.
        """
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            checked = pool.map(self._check_one, range(self.count))
            bar = tqdm(checked, f"checking masks of {self.split}", self.count, unit=" masks", dynamic_ncols=True)
            return sum(bar, np.zeros(len(self.names) + 1, np.int64))

    def _check_one(self, number):
        mask, (width, height) = self.mask(number), size_of(self.images[number])
        if mask.shape != (height, width):
            raise InputError(f"{self.masks[number]}: is {mask.shape[1]} × {mask.shape[0]} pixels, but its image "
                             f"{self.images[number]} is {width} × {height}")  # fmt: skip
        return np.bincount(np.where(mask == VOID, len(self.names), mask).ravel(), minlength=len(self.names) + 1)


def size_of(path: str) -> tuple[int, int]:
    """Width and height of an image after it is turned upright, from its header alone."""
    try:
        contents = pathlib.Path(path).read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such image, though there is a mask for it") from None
    try:
        with decoding.header_of(contents) as picture:
            width, height = picture.size
            lies = picture.format == "JPEG" and picture.getexif().get(_EXIF_ORIENTATION) in _LYING
    except Exception:  # Pillow raises all kinds of errors for broken headers
        raise InputError(f"{path}: {decoding.why_refused(contents)}") from None
    return (height, width) if lies else (width, height)
