"""Pairs of natural and transformed images from the same source images, in memory."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from lci_tf.data import share
from lci_tf.data.source import IndexedSource, Source
from lci_tf.errors import InputError

_TESTED = 0.25  # share of the source images to test on
_FEWEST = 64  # source images


class Pairs(NamedTuple):
    """Two arrays of images, float16 [n, crop, crop, 3] in [-1, 1]; row i of both is from the same source image."""

    natural: np.ndarray
    transformed: np.ndarray


def split(source: Source, limit: int, seed: int) -> tuple[Source, Source]:
    """Chooses at most `limit` source images at random: three quarters to train on, the others to test on.

    Of a stream, in which reaching an image means reading all before it, it takes the first ones.
    """
    count = source.count
    if count is None or not isinstance(source, IndexedSource):
        count = min(limit, count or limit)
    if count < _FEWEST:
        raise InputError(f"--dataset: {source.name} {source.split} has {count} images; expected {_FEWEST} or more, as "
                         "results would be random otherwise")  # fmt: skip
    numbers = np.random.default_rng(seed).permutation(count)[:limit]
    tested = round(_TESTED * len(numbers))
    train, test = (share.of_numbers(source, np.sort(part)) for part in (numbers[tested:], numbers[:tested]))
    return train, test


def collect(batches: Iterable[tuple[tf.Tensor, tf.Tensor]], count: int) -> Pairs:
    """Collects `count` pairs from batches of natural and transformed images [n, crop, crop, 3]."""
    parts: tuple[list, list] = [], []
    for batch in batches:
        for part, images in zip(parts, batch, strict=True):
            part.append(tf.cast(images, tf.float16).numpy())
        if sum(map(len, parts[0])) >= count:
            break
    return Pairs(*(np.concatenate(part)[:count] for part in parts))


def megabytes(images: int, views: int, crop_size: int) -> float:
    """The memory that pairs take, in MB; training images are used `views` times each, test images once."""
    pairs = images * (_TESTED + views * (1 - _TESTED))
    return 2 * pairs * crop_size**2 * 3 * np.dtype(np.float16).itemsize / 2**20
