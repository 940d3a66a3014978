"""The images whose embeddings are nearest to those of others: among what `shards.NumpyShards` has written."""

import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from lci_tf.embedding.shards import PATHS
from lci_tf.errors import InputError
from lci_tf.imaging import images
from lci_tf.plotting import pictures

_SIDE = 128  # pixels of a tile
_BLOCK = 65_536  # rows at a time


class Found(NamedTuple):
    """Of each query the `k` nearest: `paths`, lists of k, and `similarity`, float32 [queries, k]."""

    paths: list[list[str]]
    similarity: np.ndarray


def nearest(folder: pathlib.Path, queries: np.ndarray, k: int, feature: str = "embedding") -> Found:
    """By the cosine; the rows of images that could not be read, which are zeros, are nobody's neighbours.

    Args:
      folder: where `lci_tf.embed --format=npy` wrote to.
      queries: float32 [n, d].
    """
    path = folder / f"{feature}.npy"
    if not path.is_file():
        raise InputError(f"--out_dir={folder}: has no {path.name} to search in; make it with --format=npy")
    rows = np.load(path, mmap_mode="r")
    if rows.ndim != 2:
        raise InputError(f"{path}: holds maps; only vectors, such as embedding, can be searched")
    best, numbers = np.full([len(queries), 0], -np.inf, np.float32), np.zeros([len(queries), 0], np.int64)
    for start in range(0, len(rows), _BLOCK):
        block = np.asarray(rows[start : start + _BLOCK])
        lengths = np.linalg.norm(block, axis=1)
        cosines = _unit(queries) @ _unit(block).T
        cosines[:, lengths == 0] = -np.inf
        best = np.concatenate([best, cosines], axis=1)
        numbers = np.concatenate([numbers, np.tile(np.arange(start, start + len(block)), [len(queries), 1])], axis=1)
        order = np.argsort(-best, axis=1, kind="stable")[:, :k]
        best, numbers = np.take_along_axis(best, order, axis=1), np.take_along_axis(numbers, order, axis=1)
    if best.shape[1] < k or not np.isfinite(best).all():
        raise InputError(f"--neighbours={k}: there are not so many images in {folder}")
    paths = (folder / PATHS).read_text().splitlines()
    return Found([[paths[i] for i in row] for row in numbers], best)


def picture(queries: Sequence[str], found: Found) -> np.ndarray:
    """A row for each query: its image, then its neighbours, which are files."""
    columns = len(found.paths[0])
    neighbours = np.stack([_tile(path) for row in found.paths for path in row])
    return pictures.side_by_side({
        "query": pictures.grid(np.stack([_tile(path) for path in queries]), 1),
        "nearest": pictures.grid(neighbours, columns),
    })  # fmt: skip


def read(path: str) -> bytes:
    """The contents of a file that the user names."""
    try:
        return pathlib.Path(path).expanduser().read_bytes()
    except OSError as error:
        raise InputError(f"--search={path}: cannot be read ({error.strerror})") from None


def _tile(path):
    try:
        pixels = images.pixels(tf.constant(read(path)), _SIDE)
    except tf.errors.InvalidArgumentError:
        raise InputError(f"{path}: is no image that can be read") from None
    return pictures.fit(pixels.numpy(), _SIDE)


def _unit(rows):
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths == 0, 1, lengths)
