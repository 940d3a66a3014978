"""A data set that the program draws itself: six balls in a landscape, arranged in one of ten ways.

It is for trying things out: nothing to download, seconds to make. Sky, ground, light and shadow give every scene an up
and a down. All classes share their colours, sizes, parts and textures, and differ only in how the whole is arranged:
so features that see global arrangement have something to learn here, and a linear probe has something to measure,
while statistics of small neighbourhoods do not suffice.
"""

import functools
import pathlib
from concurrent import futures

import numpy as np

from lci_tf.data import synthetic_scenes as scenes
from lci_tf.data.source import PixelArray, Splits
from lci_tf.errors import InputError

SIDE = scenes.SIDE
_COUNTS = {"train": 5000, "test": 1000}
_SEEDS = {"train": 1, "test": 2}
_IMAGES_PER_CHUNK = 125  # small enough for the processor's caches
_THREADS = 2


def _rows(*rows_from_below):
    """Slots from the places along x of each row; rows are as high as balls stacked straight."""
    return [(x, row) for row, places in enumerate(rows_from_below) for x in places]


def _arc(angles_in_degrees, radius):
    angles = np.deg2rad(angles_in_degrees)
    return np.stack([np.cos(angles), np.sin(angles)], -1) * radius


_PYRAMID = np.array(_rows((-1, 0, 1), (-0.5, 0.5), (0,))) * [1, np.sqrt(0.75)]
_ARCH = _arc(np.arange(0, 181, 36), radius=0.5 / np.sin(np.deg2rad(18)))
_UPSIDE_DOWN = [1, -1]

# Where the six balls are, (to the right, up), in diameters. Neighbours are one diameter apart in every arrangement.
# Mirroring, which training does, must not turn a class into another: each is symmetric, but for the diagonal, which
# rises to either side.
_ARRANGEMENTS = {
    "pyramid": _PYRAMID,
    "funnel": _PYRAMID * _UPSIDE_DOWN,
    "wall": _rows((-1, 0, 1), (-1, 0, 1)),
    "tower": _rows((-0.5, 0.5), (-0.5, 0.5), (-0.5, 0.5)),
    "gate": _rows((-1, 1), (-1, 1), (-1, 1)),
    "ring": _arc(np.arange(0, 360, 60), radius=1),
    "arch": _ARCH,
    "cup": _ARCH * _UPSIDE_DOWN,
    "cross": _rows((0,), (0,), (-1, 0, 1), (0,)),
    "diagonal": np.arange(-2.5, 3)[:, None] * [np.sqrt(0.5), np.sqrt(0.5)],
}
CLASSES = tuple(_ARRANGEMENTS)


def _standing(slots):
    """From below upwards, as they are painted, with the lowest ball on the ground."""
    slots = np.array(slots, np.float32)
    slots = slots[np.argsort(slots[:, 1], kind="stable")]
    return slots - (slots.min(0) + slots.max(0)) / 2


_SLOTS = np.stack([_standing(slots) for slots in _ARRANGEMENTS.values()]).astype(np.float32)


def draw(labels: np.ndarray, seed: int) -> np.ndarray:
    """Draws a scene for each label.

    Args:
      labels: integers [n], numbers in `CLASSES`.
      seed: of everything else. Image i depends on the seed, i and its own label, not on the other labels.

    Returns:
      uint8 [n, 96, 96, 3].
    """
    labels = np.asarray(labels)
    images = np.empty((len(labels), SIDE, SIDE, 3), np.uint8)

    def draw_chunk(start):
        chunk = slice(start, start + _IMAGES_PER_CHUNK)
        slots = _SLOTS[labels[chunk]]
        images[chunk] = scenes.paint(slots, scenes.Dice(len(slots), (seed, start)))

    with futures.ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(draw_chunk, range(0, len(labels), _IMAGES_PER_CHUNK)))
    return images


@functools.lru_cache
def _open(split: str) -> PixelArray:
    count, seed = _COUNTS[split], _SEEDS[split]
    labels = np.random.default_rng(seed).permutation(np.arange(count, dtype=np.int64) % len(CLASSES))
    return PixelArray(
        name="synthetic",
        split=split,
        count=count,
        label_kind="class",
        label_names=CLASSES,
        pixels=draw(labels, seed),
        labels=labels,
    )


def find(data_dir: pathlib.Path | None) -> Splits:
    if data_dir is not None:
        raise InputError("--data_dir: the synthetic data set is drawn by the program and has no directory")
    return {split: functools.partial(_open, split) for split in _COUNTS}
