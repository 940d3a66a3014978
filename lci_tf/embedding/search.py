"""Finds the images whose embeddings are nearest to those of a query, in files that `shards.NumpyShards` wrote."""

import json
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from lci_tf.embedding import known_picture
from lci_tf.embedding.embedding import PROTOCOL
from lci_tf.embedding.shards import PATHS
from lci_tf.errors import InputError
from lci_tf.imaging import images
from lci_tf.plotting import pictures
from lci_tf.serving.client.predictor import Predictor

_SIDE = 128  # side of a tile in pixels
_BLOCK = 65_536  # rows searched at a time


class Found(NamedTuple):
    """The `k` nearest images of each query: `paths`, lists of k, and `similarity`, float32 [queries, k]."""

    paths: list[list[str]]
    similarity: np.ndarray

    def are_files(self) -> bool:
        """Whether all images are files of their own, which can be shown; others are named by their data set."""
        return all(pathlib.Path(path).is_absolute() for row in self.paths for path in row)


def check_network(folder: pathlib.Path, predictor: Predictor, feature: str = "embedding") -> None:
    """Raises `InputError` if another network made the features in this folder, as they cannot be compared."""
    _file_of(folder, feature)
    path = folder / PROTOCOL
    before = json.loads(path.read_text()) if path.is_file() else {}
    answers = known_picture.answers(predictor.predict([known_picture.png()], [feature]))
    known_picture.check(before, answers, f"--out_dir={folder}")


def nearest(folder: pathlib.Path, queries: np.ndarray, k: int, feature: str = "embedding") -> Found:
    """Finds the nearest images by cosine similarity; unreadable images, whose rows are zeros, are left out.

    Args:
      folder: output of `lci_tf.embed --format=npy`.
      queries: float32 [n, d].
    """
    path = _file_of(folder, feature)
    rows = np.load(path, mmap_mode="r")
    if rows.ndim != 2:
        raise InputError(f"{path}: contains maps; only vectors, such as embedding, can be searched")
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
        raise InputError(f"--neighbours={k}: there are fewer images in {folder}")
    paths = (folder / PATHS).read_text().splitlines()
    return Found([[paths[i] for i in row] for row in numbers], best)


def _file_of(folder, feature):
    path = folder / f"{feature}.npy"
    if not path.is_file():
        raise InputError(f"--out_dir={folder}: has no {path.name} to search in; make it with --format=npy")
    return path


def picture(queries: Sequence[str], found: Found) -> np.ndarray:
    """A picture with a row for each query: its image, then its neighbours, which must be files."""
    columns = len(found.paths[0])
    neighbours = np.stack([_tile(path) for row in found.paths for path in row])
    return pictures.side_by_side({
        "query": pictures.grid(np.stack([_tile(path) for path in queries]), 1),
        "nearest": pictures.grid(neighbours, columns),
    })  # fmt: skip


def read(path: str, flag: str = "--search=") -> bytes:
    """The contents of a file that the user named with a flag."""
    try:
        return pathlib.Path(path).expanduser().read_bytes()
    except OSError as error:
        raise InputError(f"{flag}{path}: cannot be read ({error.strerror})") from None


def _tile(path):
    try:
        pixels = images.pixels(tf.constant(read(path, flag="")), _SIDE)
    except tf.errors.InvalidArgumentError:
        raise InputError(f"{path}: is not an image that can be read") from None
    return pictures.fit(pixels.numpy(), _SIDE)


def _unit(rows):
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths == 0, 1, lengths)
