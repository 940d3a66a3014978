"""Loads images and masks as arrays, ahead of time, and groups them by size."""

import collections
import concurrent.futures
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from PIL import Image

from lci_tf.data import draws
from lci_tf.errors import InputError
from lci_tf.evaluation.voc.segmentation.masked_images import MaskedImages
from lci_tf.imaging import decoding

_THREADS = 2
_AHEAD = 16  # images loaded ahead of time
_decode = tf.function(decoding.decode, input_signature=[tf.TensorSpec([], tf.string)])


class Example(NamedTuple):
    """An image, uint8 [height, width, 3]; its mask, uint8 [height, width]; and its number."""

    image: np.ndarray
    mask: np.ndarray
    number: int


class Loader:
    """Loads images with their masks.

    Args:
      short_side: larger images are resized to this short side, and in training their masks too, to the class of the
        nearest pixel. None keeps all sizes.
    """

    def __init__(self, source: MaskedImages, short_side: int | None = None):
        self._source, self._short_side = source, short_side

    def training(self, seed: int, size: int, first_step: int = 0) -> Iterator[list[Example]]:
        """Endless batches of `size` images: every image once in each epoch, in a new order."""

        def numbers():
            position = first_step * size
            while True:
                block = tf.range(position, position + size, dtype=tf.int64)
                yield from draws.shuffled(seed, block, self._source.count).numpy().tolist()
                position += size

        examples = _ahead(lambda number: self._load(number, shrink_mask=True), numbers())
        while True:
            yield [next(examples) for _ in range(size)]

    def testing(self) -> Iterator[Example]:
        """Every image once, in order, with its mask in full size."""
        return _ahead(lambda number: self._load(number, shrink_mask=False), range(self._source.count))

    def _load(self, number, shrink_mask):
        path, mask = self._source.images[number], self._source.mask(number)
        contents = tf.io.read_file(path)
        try:
            image = _decode(contents).numpy()
        except tf.errors.OpError:
            raise InputError(f"{path}: {decoding.why_refused(contents.numpy())}") from None
        size = np.array(image.shape[:2])
        if self._short_side and size.min() > self._short_side:
            size = np.maximum(1, np.round(size * self._short_side / size.min()).astype(int))
            image = np.asarray(Image.fromarray(image).resize(size[::-1], Image.Resampling.BILINEAR))
            mask = resized(mask, size) if shrink_mask else mask
        return Example(image, mask, number)


def resized(mask: np.ndarray, size: Sequence[int]) -> np.ndarray:
    """Resizes a mask to this height and width; each pixel takes the class of the nearest."""
    return np.asarray(Image.fromarray(mask).resize((size[1], size[0]), Image.Resampling.NEAREST))


def of_one_size(examples: Iterable[Example], at_once: int) -> Iterator[list[Example]]:
    """Groups of at most `at_once` images of the same size, which can go through the network together."""
    waiting: dict[tuple[int, ...], list[Example]] = collections.defaultdict(list)
    for example in examples:
        group = waiting[example.image.shape]
        group.append(example)
        if len(group) == at_once:
            yield waiting.pop(example.image.shape)
    yield from waiting.values()


def _ahead(load, numbers) -> Iterator[Example]:
    """Loads examples in threads, in order, a few ahead of time."""
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        loading: collections.deque[concurrent.futures.Future] = collections.deque()
        try:
            for number in numbers:
                loading.append(pool.submit(load, number))
                if len(loading) > _AHEAD:
                    yield loading.popleft().result()
            while loading:
                yield loading.popleft().result()
        finally:
            for waiting in loading:
                waiting.cancel()
