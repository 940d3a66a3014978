"""Retrieves the nearest images of some queries, and draws them: in each row a query and its neighbours."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lci_tf.data import pipeline, share
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import Source
from lci_tf.errors import InputError
from lci_tf.evaluation.crop_features import CropFeatures
from lci_tf.evaluation.feature_file import FeatureFile
from lci_tf.evaluation.neighbours import exact_search
from lci_tf.imaging import images
from lci_tf.plotting import pictures

_SIDE, _FRAME, _FONT_SIZE = 128, 3, 22  # pixels: side of a tile, its frame, and font size
# Two colours of Okabe and Ito's palette, which is safe for the colour-blind.
RIGHT, WRONG = (0, 158, 115), (213, 94, 0)


@dataclasses.dataclass(frozen=True)
class Retrieved:
    """The neighbours of the queries according to a network.

    Attributes:
      numbers: int64 [queries, k], indices of the neighbours in the source.
      similarity: float32 [queries, k], their cosines.
      is_right: bool [queries, k], whether they are of the query's class; None unless all images have a class.
    """

    numbers: np.ndarray
    similarity: np.ndarray
    is_right: np.ndarray | None


def choose_queries(source: Source, names: Sequence[str]) -> list[int]:
    """Indices of the images that the user names, by index, by path or by the end of a path."""
    paths = getattr(source, "paths", None)
    return [_number_of(name, source, paths) for name in names]


def check_enough(source: Source, count: int, queries: int | None, k: int) -> None:
    """Refuses more random queries, or more neighbours, than the `count` images of the source allow."""
    if (queries or 0) > count:
        raise InputError(f"--retrieve={queries}: {source.name} {source.split} has only {count:,} images")
    exact_search.check_enough(k, count - 1, f"{source.name} {source.split}", "--neighbours")


def random_queries(numbers: np.ndarray, count: int, seed: int) -> list[int]:
    """`count` of these indices, chosen at random, in increasing order."""
    return np.sort(np.random.default_rng(seed).choice(numbers, count, replace=False)).tolist()


def retrieve(
    found: CropFeatures, layer: FeatureFile, queries: Sequence[int], k: int, search: Callable = exact_search.nearest
) -> Retrieved:
    """The `k` nearest images of each query among all others.

    Args:
      found: the images, with their labels.
      layer: their features, normalised.
      queries: indices of images in the source.
      k: number of neighbours.
      search: `exact_search.nearest` or `faiss_search.nearest`.
    """
    for query in queries:
        if query not in found.numbers:
            raise InputError(f"--queries: image {query} cannot be read, or does not exist")
    rows = np.searchsorted(found.numbers, queries)
    nearest = search(layer, np.concatenate([layer[row : row + 1] for row in rows]), k, leave_out=rows)
    is_right = None
    if found.labels is not None and found.labels.min() >= 0:
        is_right = found.labels[nearest.numbers] == found.labels[rows, None]
    return Retrieved(found.numbers[nearest.numbers], nearest.similarity, is_right)


def picture(source: Source, queries: Sequence[int], retrieved: dict[str, Retrieved]) -> np.ndarray:
    """A picture with a row for each query: its image, then for each network, below its name, the neighbours.

    If there are labels, frames show whether neighbours are of the query's class, and a legend says so.
    """
    needed = np.unique(np.concatenate([queries, *(found.numbers.ravel() for found in retrieved.values())]))
    shown = thumbnails(source, needed)
    groups = {"query": pictures.grid(shown[np.searchsorted(needed, queries)], 1)}
    for name, found in retrieved.items():
        neighbours = shown[np.searchsorted(needed, found.numbers.ravel())]
        if found.is_right is not None:
            colours = [RIGHT if right else WRONG for right in found.is_right.ravel()]
            framed = [pictures.outline(t, 0, 0, _SIDE, c, _FRAME) for t, c in zip(neighbours, colours, strict=True)]
            neighbours = np.stack(framed)
        groups[name] = pictures.grid(neighbours, found.numbers.shape[1])
    rows = pictures.side_by_side(groups, _FONT_SIZE)
    if all(found.is_right is None for found in retrieved.values()):
        return rows
    return pictures.with_legend(rows, {RIGHT: "of the query's class", WRONG: "of another class"}, _FONT_SIZE)


def described(source: Source, queries: Sequence[int], retrieved: dict[str, Retrieved]) -> list[dict[str, Any]]:
    """The origin of each query and its neighbours, and their similarity, in plain values."""

    def neighbours(found, row):
        pairs = zip(found.numbers[row].tolist(), found.similarity[row].tolist(), strict=True)
        return [{"image": source.where(number), "similarity": round(similarity, 4)} for number, similarity in pairs]

    return [
        {"query": source.where(query), **{name: neighbours(found, row) for name, found in retrieved.items()}}
        for row, query in enumerate(queries)
    ]


def _number_of(name, source, paths):
    what, where = f"--queries={name}", f"{source.name} {source.split}"
    if name.isdecimal():
        if source.count is not None and int(name) >= source.count:
            raise InputError(f"{what}: {where} has the images 0 to {source.count - 1:,}")
        return int(name)
    if paths is None:
        raise InputError(f"{what}: the images of {where} have no names; give numbers, counted from 0")
    ending = os.sep + name.lstrip(os.sep)
    path = os.path.abspath(os.path.expanduser(name))  # noqa: PTH100, PTH111 (as `files.absolute`)
    found = [i for i, p in enumerate(paths) if p == name or os.path.abspath(p) == path]  # noqa: PTH100
    found = found or [i for i, p in enumerate(paths) if p.endswith(ending)]
    if not found:
        raise InputError(f"{what}: no such image in {where}; give the path of one, the end of its path, or a number")
    if len(found) > 1:
        raise InputError(f"{what}: {len(found):,} images of {where} have this name, such as {paths[found[0]]} and "
                         f"{paths[found[1]]}")  # fmt: skip
    return found[0]


def thumbnails(source: Source, numbers: np.ndarray, side: int = _SIDE) -> np.ndarray:
    """The centre of each image, as large as possible, uint8 [n, side, side, 3]; `numbers` must increase."""
    chosen = share.of_numbers(source, numbers)
    report = InputReport(chosen)
    report.enlarged = True  # suppresses the warning, as these are only for viewing
    batches = pipeline.evaluation_batches(chosen, pipeline.Crops(side, side), 64, report)
    with report.one_line_errors():
        return np.concatenate([images.unscale(batch["image"][:, 0]).numpy() for batch in batches])
