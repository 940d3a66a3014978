"""Images that could not be read, or had to be enlarged: named, counted, and beyond a limit the end of the run."""

import contextlib
import logging
import threading

import numpy as np
import tensorflow as tf

from lci_tf.data.source import Source
from lci_tf.errors import InputError

_LIMIT_IN_A_STREAM = 100  # unreadable images, where a share of an unknown number is asked for
log = logging.getLogger("lci_tf")


def allowed_bad_images(max_bad_images: float, count: int | None) -> float:
    """How many of `count` images may be unreadable: `max_bad_images` is a share if below 1, else a number."""
    if max_bad_images >= 1:
        return max_bad_images
    # A share of an unknown number; but none is none.
    return max_bad_images * count if count is not None else _LIMIT_IN_A_STREAM * (max_bad_images > 0)


class InputReport:
    """What the pipeline has to say about single images.

    Attributes:
      unreadable: image number -> where it is and why it cannot be read.
      enlarged: whether any image was smaller than the crop.
    """

    def __init__(self, source: Source, max_bad_images: float = 0.01):
        """Allows so many unreadable images; see `allowed_bad_images`."""
        self.unreadable: dict[int, str] = {}
        self.enlarged = False
        self.failure: InputError | None = None
        self._source = source
        self._max_bad_images = max_bad_images
        self._lock = threading.Lock()

    def note(self, indices: np.ndarray, images: np.ndarray, valid: np.ndarray, enlarged: np.ndarray) -> np.ndarray:
        """Takes note of a chunk. Runs in the pipeline's threads; raises when too many images were unreadable."""
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
        """For a worker's part of a batch of which nothing can be read, so that nothing can stand in."""
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

    def _fail(self, message):
        self.failure = InputError(message)
        raise self.failure

    @contextlib.contextmanager
    def one_line_errors(self):
        """Wraps what consumes the batches: the pipeline's own errors come out as `InputError`."""
        try:
            yield
        except tf.errors.OpError as error:
            if self.failure is not None:
                raise self.failure from None
            if isinstance(error, tf.errors.DataLossError):
                raise InputError(f"{self._source.name} {self._source.split}: a record is damaged: "
                                 f"{error.message.splitlines()[0]}") from None  # fmt: skip
            raise
