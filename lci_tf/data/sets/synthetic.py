"""A data set that the program draws itself: landscapes with balls, six of which form one of ten arrangements.

It is for trying things out: there is nothing to download, and drawing it takes seconds. Sky, ground, light and shadow
give every scene an up and a down. All classes share their colours, sizes, parts and textures, and differ only in the
arrangement of the whole: features of the global arrangement can be learned here, and measured by a linear probe.

The balls of the arrangement have one hue; smaller balls of another hue float around in every class. People tell them
apart at once, but the mere amount of ball or edge at a place says little about the class.
"""

import functools
import os
import pathlib
from concurrent import futures

import numpy as np

from lci_tf.data.sets import synthetic_scenes as scenes
from lci_tf.data.source import PixelArray, Splits
from lci_tf.errors import InputError

SIDE = scenes.SIDE
_COUNTS = {"train": 5000, "test": 1000}
_SEEDS = {"train": 1, "test": 2}
_IMAGES_PER_CHUNK = 125  # few enough for the processor's caches
_LOOSE_BALLS = 15

# In diameters: a ball on top of another, and a ball that rests between two others.
_UP, _REST = 1, np.sqrt(0.75)

# Positions of the six balls, (right, up), in diameters. In every arrangement, neighbours are one diameter apart. All
# are symmetric, because training mirrors images, which must not turn one class into another.
_ARRANGEMENTS = {
    "pyramid": [(-1, 0), (0, 0), (1, 0), (-0.5, _REST), (0.5, _REST), (0, 2 * _REST)],
    "funnel": [(-1, 0), (0, 0), (1, 0), (-0.5, -_REST), (0.5, -_REST), (0, -2 * _REST)],
    "wall": [(-1, 0), (0, 0), (1, 0), (-1, _UP), (0, _UP), (1, _UP)],
    "tower": [(-0.5, 0), (0.5, 0), (-0.5, _UP), (0.5, _UP), (-0.5, 2 * _UP), (0.5, 2 * _UP)],
    "gate": [(-1, 0), (1, 0), (-1, _UP), (1, _UP), (-1, 2 * _UP), (1, 2 * _UP)],
    "ring": [(-0.5, 0), (0.5, 0), (-1, _REST), (1, _REST), (-0.5, 2 * _REST), (0.5, 2 * _REST)],
    "arch": [(-1, 0), (1, 0), (-1, _UP), (1, _UP), (-0.5, _UP + _REST), (0.5, _UP + _REST)],
    "cup": [(-1, 0), (1, 0), (-1, -_UP), (1, -_UP), (-0.5, -_UP - _REST), (0.5, -_UP - _REST)],
    "cross": [(0, 0), (0, _UP), (-1, 2 * _UP), (0, 2 * _UP), (1, 2 * _UP), (0, 3 * _UP)],
    "hourglass": [(-0.5, 0), (0.5, 0), (0, _REST), (0, _UP + _REST), (-0.5, _UP + 2 * _REST), (0.5, _UP + 2 * _REST)],
}
CLASSES = tuple(_ARRANGEMENTS)


def _centred(slots):
    """Positions relative to the centre of the arrangement, from the lowest to the highest, the order of painting."""
    slots = np.array(sorted(slots, key=lambda slot: slot[1]))
    return slots - (slots.min(0) + slots.max(0)) / 2


_SLOTS = np.stack([_centred(slots) for slots in _ARRANGEMENTS.values()]).astype(np.float32)


def draw(labels: np.ndarray, seed: int) -> np.ndarray:
    """Draws a scene for each label.

    Args:
      labels: integers [n], indices into `CLASSES`.
      seed: random seed for everything else. Image i depends on the seed, i and its own label, not on other labels.

    Returns:
      uint8 [n, 96, 96, 3].
    """
    labels = np.asarray(labels)
    images = np.empty((len(labels), SIDE, SIDE, 3), np.uint8)

    def draw_chunk(start):
        chunk = slice(start, start + _IMAGES_PER_CHUNK)
        dice = scenes.Dice(len(labels[chunk]), (seed, start))
        hue = dice.uniform(0, 1, 1)
        figure = _figure(_SLOTS[labels[chunk]], hue, dice)
        loose = _loose_balls(hue + dice.uniform(0.35, 0.65, 1), dice)
        images[chunk] = scenes.paint(figure, loose, dice)

    with futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(draw_chunk, range(0, len(labels), _IMAGES_PER_CHUNK)))
    return images


def _figure(slots, hue, dice):
    """The arrangement: balls at `slots` [n, 6, 2], slightly tilted, centred near the middle of the image."""
    balls = slots.shape[1]
    slots = slots + dice.uniform(-0.07, 0.07, balls, 2)
    lean = dice.uniform(-0.22, 0.22, 1)
    right = np.cos(lean) * slots[..., 0] + np.sin(lean) * slots[..., 1]
    up = np.cos(lean) * slots[..., 1] - np.sin(lean) * slots[..., 0]
    diameter = dice.uniform(10.5, 15, 1)
    return scenes.Balls(
        x=SIDE / 2 + dice.uniform(-7, 7, 1) + diameter * right,
        y=SIDE / 2 + dice.uniform(-7, 7, 1) - diameter * up,
        radius=0.5 * diameter * dice.uniform(0.87, 1.1, balls),
        largest_radius=8.25,
        **_looks(hue, balls, dice),
    )


def _loose_balls(hue, dice):
    return scenes.Balls(
        x=dice.uniform(6, SIDE - 6, _LOOSE_BALLS),
        y=dice.uniform(6, SIDE - 6, _LOOSE_BALLS),
        radius=dice.uniform(3, 6, _LOOSE_BALLS),
        largest_radius=6,
        **_looks(hue, _LOOSE_BALLS, dice),
    )


def _looks(hue, balls, dice):
    """Colours around a hue [n, 1], light and dark, and textures, each on the same number of balls, in random order."""
    lightness = dice.uniform(0.45, 0.88, balls)
    # Light marks on dark balls, dark marks on light ones.
    mark_lightness = np.where(lightness < 0.68, np.float32(0.94), np.float32(0.42))
    return {
        "colour": scenes.colour(lightness, 0.13, hue + dice.uniform(-0.07, 0.07, balls)),
        "mark_colour": scenes.colour(mark_lightness, 0.06, hue + dice.uniform(-0.1, 0.1, balls)),
        "texture": np.argsort(dice.uniform(0, 1, balls), axis=1) % scenes.TEXTURES,
    }


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
        raise InputError("--data_dir: the synthetic data set is drawn by the program and has no directory; did you "
                         "mean --dataset=folder?")  # fmt: skip
    return {split: functools.partial(_open, split) for split in _COUNTS}
