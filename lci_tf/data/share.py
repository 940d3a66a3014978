"""A share of a source's images, without reading any: spread evenly over it, or those of given numbers."""

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from lci_tf.data.source import IndexedSource, Source, StreamSource

_GOLDEN = (5**0.5 - 1) / 2


def between(source: Source, start: float, stop: float) -> Source:
    """The images with a *place* in [start, stop), 0 ≤ start < stop ≤ 1; disjoint intervals give disjoint shares.

    Image i has the place `i · golden ratio mod 1`. Places fill [0, 1) evenly from wherever one begins and with
    whatever stride: so every class has its share, whether images come class by class or with the classes in turn.
    """
    if source.count is not None:
        return of_numbers(source, np.flatnonzero(_in_share(np.arange(source.count), start, stop)))
    return _StreamShare(
        count=None,
        is_kept=lambda index: _in_share(tf.cast(index, tf.float64), start, stop),
        original=source,
        **_description(source),
    )


def of_numbers(source: Source, numbers: np.ndarray) -> Source:
    """The images of these numbers; of a stream, whatever their order, in that of the stream."""
    if isinstance(source, IndexedSource):
        return _IndexedShare(count=len(numbers), indices=numbers, original=source, **_description(source))
    kept = np.zeros(numbers.max(initial=-1) + 2, bool)  # with one behind, for all that come later
    kept[numbers] = True
    return _StreamShare(
        count=len(numbers),
        is_kept=lambda index: tf.gather(kept, tf.minimum(index, len(kept) - 1)),
        original=source,
        **_description(source),
    )


def at_most(source: Source, limit: int) -> Source:
    """About `limit` images, or all if there are no more. Of a stream of unknown length, the first ones."""
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
    def is_encoded(self):
        return self.original.is_encoded

    def read(self, image):
        return self.original.read(image)

    def why_unreadable(self, image):
        return self.original.why_unreadable(image)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _IndexedShare(_Share, IndexedSource):
    indices: np.ndarray

    def __post_init__(self):
        with tf.init_scope():  # outside any graph, of which it would become a part
            object.__setattr__(self, "_indices", tf.constant(self.indices))

    def rows(self, indices):
        return self.original.rows(tf.gather(self._indices, indices))

    def where(self, index):
        return self.original.where(int(self.indices[index]))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _StreamShare(_Share, StreamSource):
    is_kept: Callable[[tf.Tensor], tf.Tensor]
    limit: int = -1  # as `take` has it: all

    def stream(self):
        numbered = self.original.stream().enumerate()
        return numbered.filter(lambda index, row: self.is_kept(index)).map(lambda index, row: row).take(self.limit)

    def where(self, index):
        kept = (i for i in itertools.count() if self.is_kept(tf.constant(i, tf.int64)))
        return self.original.where(next(itertools.islice(kept, index, None)))
