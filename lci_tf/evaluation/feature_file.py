"""Features that do not fit into memory: a matrix in a temporary file, read and written by blocks of rows."""

import concurrent.futures
import itertools
import pathlib
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import numpy as np

from lci_tf.errors import InputError

Item = TypeVar("Item")
Made = TypeVar("Made")


class FeatureFile:
    """A matrix, float32 [n, d], on disk. `features[i:j]` reads rows, `features[i:j] = rows` overwrites them.

    The file has no name, and vanishes when the process ends, however it ends. It is not memory-mapped, as mapped pages
    would count as memory of this process.
    """

    def __init__(self, folder: pathlib.Path):
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._lock = folder, threading.Lock()
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (it lives as long as this object)
        weakref.finalize(self, self._file.close)
        self._rows = self._width = 0

    @property
    def shape(self) -> tuple[int, int]:
        return self._rows, self._width

    def __len__(self) -> int:
        return self._rows

    def append(self, rows: np.ndarray) -> None:
        """Appends rows, float32 [m, d]; the first ones determine d."""
        self._width = self._width or rows.shape[1]
        self._write(self._rows, rows)
        self._rows += len(rows)

    def __getitem__(self, rows: slice) -> np.ndarray:
        start, stop, _ = rows.indices(self._rows)
        block = np.empty([max(0, stop - start), self._width], np.float32)
        with self._lock:
            self._file.seek(4 * self._width * start)
            self._file.readinto(block.data)
        return block

    def __setitem__(self, rows: slice, values: np.ndarray) -> None:
        start, stop, _ = rows.indices(self._rows)
        if len(values) != stop - start:
            raise ValueError(f"{len(values)} rows instead of {stop - start}")
        self._write(start, values)

    def _write(self, start, rows):
        rows = np.ascontiguousarray(rows, np.float32)
        if rows.shape[1] != self._width:
            raise ValueError(f"rows of {rows.shape[1]} features instead of {self._width}")
        try:
            with self._lock:
                self._file.seek(4 * self._width * start)
                self._file.write(rows)
                self._file.flush()  # a full disk shows here
        except OSError as error:
            raise InputError(f"{self._folder}: the features of {start + len(rows):,} images cannot be stored there "
                             f"({error.strerror})") from None  # fmt: skip


def row_blocks(features: np.ndarray | FeatureFile, block_bytes: int, most: int | None = None) -> list[slice]:
    """Consecutive blocks with at most these numbers of bytes and rows, whose lengths differ by at most one row."""
    count, width = features.shape
    largest = max(1, min(block_bytes // (4 * max(1, width)), most or count))
    edges = np.linspace(0, count, -(-count // largest) + 1).astype(int).tolist()
    return [slice(start, stop) for start, stop in itertools.pairwise(edges)]


def read_ahead(read: Callable[[Item], Made], items: Iterable[Item]) -> Iterator[tuple[Item, Made]]:
    """Yields each item with `read(item)`; while the caller uses it, the next one is read."""
    with concurrent.futures.ThreadPoolExecutor(1) as reader:
        coming: tuple[Item, concurrent.futures.Future[Made]] | None = None
        for item in items:
            current, coming = coming, (item, reader.submit(read, item))
            if current:
                yield current[0], current[1].result()
        if coming:
            yield coming[0], coming[1].result()
