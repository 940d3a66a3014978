"""Reports images that cannot be read or must be enlarged, and stops the run if too many cannot be read."""

import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import NoReturn

import numpy as np
import tensorflow as tf

from lci_tf.data.source import Source
from lci_tf.errors import InputError

_LIMIT_IN_A_STREAM = 100  # unreadable images that are allowed where a share cannot be computed, as the total is unknown
log = logging.getLogger("lci_tf")


def allowed_bad_images(max_bad_images: float, count: int | None) -> float:
    """How many of `count` images may be unreadable: `max_bad_images` is a share of them if below 1, else a number."""
    if max_bad_images >= 1:
        return max_bad_images
    # The total of a stream is unknown; but a share of 0 allows none.
    return max_bad_images * count if count is not None else _LIMIT_IN_A_STREAM * (max_bad_images > 0)


class InputReport:
    """Collects what the pipeline finds out about single images, and logs it.

    Attributes:
      unreadable: index of an image -> where it is and why it cannot be read.
      enlarged: whether any image was smaller than the crop.
    """

    def __init__(self, source: Source, max_bad_images: float = 0.01):
        """`max_bad_images` is how many may be unreadable: a share or a number, see `allowed_bad_images`."""
        self.unreadable: dict[int, str] = {}
        self.enlarged = False
        self.failure: InputError | None = None
        self._source = source
        self._max_bad_images = max_bad_images
        self._lock = threading.Lock()

    def note(self, indices: np.ndarray, images: np.ndarray, valid: np.ndarray, enlarged: np.ndarray) -> np.ndarray:
        """Records what happened to a chunk; raises if too many cannot be read. Runs in the pipeline's threads."""
        with self._lock:
            if enlarged.any() and not self.enlarged:
                self.enlarged = True
                first = self._source.where(int(indices[enlarged][0]))
                log.warning("some images are smaller than the crop and are enlarged to it; the first is %s", first)
            for index, image in zip(indices[~valid].tolist(), images[~valid], strict=True):
                if index not in self.unreadable:
                    why = f"{self._source.where(index)} {self._source.why_unreadable(image)}"
                    self.unreadable[index] = why
                    log.warning("left out: %s", why)
            self._stop_if_too_many()
        return np.zeros([], np.bool_)

    def give_up(self, indices: np.ndarray) -> np.ndarray:
        """Raises: no image of a worker's part of a batch can be read, so none can replace the others."""
        self._fail(f"none of {len(indices)} images in a row can be read; {self.unreadable[int(indices[-1])]}")

    def _stop_if_too_many(self):
        count = self._source.count
        if len(self.unreadable) > allowed_bad_images(self._max_bad_images, count):
            of = "" if count is None else f" of {count:,}"
            last = list(self.unreadable.values())[-1]
            self._fail(
                f"{len(self.unreadable):,}{of} images cannot be read, more than --max_bad_images="
                f"{self._max_bad_images:g} allows; the last: {last}"
            )

    def _fail(self, message: str) -> NoReturn:
        self.failure = InputError(message)
        raise self.failure

    @contextlib.contextmanager
    def one_line_errors(self) -> Iterator[None]:
        """A context for consuming the batches: errors of the pipeline are raised as `InputError`."""
        try:
            yield
        except tf.errors.OpError as error:
            if self.failure is not None:
                raise self.failure from None
            if isinstance(error, tf.errors.DataLossError):
                raise InputError(f"{self._source.name} {self._source.split}: a record is damaged: "
                                 f"{error.message.splitlines()[0]}") from None  # fmt: skip
            raise
