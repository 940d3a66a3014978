"""Selects some of a source's images without reading any: an evenly spread share, or given indices."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from lci_tf.data.source import IndexedSource, Row, Source, StreamSource

_GOLDEN = (5**0.5 - 1) / 2


def between(source: Source, start: float, stop: float) -> Source:
    """The images with a *place* in [start, stop), 0 ≤ start < stop ≤ 1; disjoint intervals give disjoint shares.

    The place of image i is `i · golden ratio mod 1`. Such places fill [0, 1) evenly, starting anywhere and with any
    stride, so every class gets its share, whether images are sorted by class or the classes alternate.
    """
    if source.count is not None:
        return of_numbers(source, np.flatnonzero(_in_share(np.arange(source.count), start, stop)))
    return _StreamShare(
        count=None,
        is_kept=lambda index: _in_share(tf.cast(index, tf.float64), start, stop),
        named=repr((start, stop)).encode(),
        original=source,
        **_description(source),
    )


def of_numbers(source: Source, numbers: np.ndarray) -> Source:
    """The images with these indices, int [n]; of a stream, always in the order of the stream."""
    if isinstance(source, IndexedSource):
        return _IndexedShare(count=len(numbers), indices=numbers, original=source, **_description(source))
    kept = np.zeros(numbers.max(initial=-1) + 2, bool)  # with an extra entry for all later images
    kept[numbers] = True
    return _StreamShare(
        count=len(numbers),
        is_kept=lambda index: tf.gather(kept, tf.minimum(index, len(kept) - 1)),
        named=kept.tobytes(),
        limit=len(numbers),  # then there is no need to read on
        original=source,
        **_description(source),
    )


def at_most(source: Source, limit: int) -> Source:
    """About `limit` images, or all if there are fewer. Of a stream of unknown length, the first ones."""
    if source.count is None:
        return _StreamShare(
            count=None, is_kept=lambda index: True, limit=limit, original=source, **_description(source)
        )
    return source if source.count <= limit else between(source, 0.0, limit / source.count)


def _description(source):
    return {f.name: getattr(source, f.name) for f in dataclasses.fields(Source) if f.name != "count"}


def _in_share(index, start, stop):
    place = index * _GOLDEN % 1.0
    return (place >= start) & (place < stop)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Share(Source):
    original: Source

    @property
    def is_encoded(self) -> bool:
        return self.original.is_encoded

    def read(self, image: tf.Tensor) -> tf.Tensor:
        return self.original.read(image)

    def why_unreadable(self, image: bytes) -> str:
        return self.original.why_unreadable(image)

    def facts(self) -> Iterator[bytes]:
        yield str(self.original.fingerprint["contents"]).encode()
        yield self.choice()

    def label_facts(self) -> Iterator[bytes]:
        yield str(self.original.fingerprint["labels"]).encode()
        yield self.choice()

    def choice(self) -> bytes:
        """Bytes that identify which images were selected, for the fingerprint."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True, kw_only=True)
class _IndexedShare(_Share, IndexedSource):
    original: IndexedSource
    indices: np.ndarray
    _indices: tf.Tensor = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self):
        with tf.init_scope():  # outside any graph, or it would become part of that
            object.__setattr__(self, "_indices", tf.constant(self.indices))

    def rows(self, indices: tf.Tensor) -> Row:
        return self.original.rows(tf.gather(self._indices, indices))

    def where(self, index: int) -> str:
        return self.original.where(int(self.indices[index]))

    def choice(self) -> bytes:
        return np.asarray(self.indices, np.int64).tobytes()


@dataclasses.dataclass(frozen=True, kw_only=True)
class _StreamShare(_Share, StreamSource):
    is_kept: Callable[[tf.Tensor], tf.Tensor]
    named: bytes = b""  # identifies `is_kept`
    limit: int = -1  # -1 means all, as in `take`

    def stream(self) -> tf.data.Dataset:
        numbered = self.original.stream().enumerate()
        return numbered.filter(lambda index, row: self.is_kept(index)).map(lambda index, row: row).take(self.limit)

    def where(self, index: int) -> str:
        kept = (i for i in itertools.count() if self.is_kept(tf.constant(i, tf.int64)))
        return self.original.where(next(itertools.islice(kept, index, None)))

    def choice(self) -> bytes:
        return self.named + str(self.limit).encode()
