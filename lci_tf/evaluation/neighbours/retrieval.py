"""The images of a set that are nearest to some of them, as a picture: a query, then its neighbours, in each row."""

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
from lci_tf.evaluation.neighbours import exact_search as knn
from lci_tf.imaging import images
from lci_tf.plotting import pictures

_SIDE, _FRAME, _FONT_SIZE = 128, 3, 22  # pixels of a tile, its frame, and the letters above
# Of Okabe and Ito's colours, which the colour-blind tell apart.
RIGHT, WRONG = (0, 158, 115), (213, 94, 0)


@dataclasses.dataclass(frozen=True)
class Retrieved:
    """What a network finds similar.

    Attributes:
      numbers: int64 [queries, k], the neighbours' numbers in the source.
      similarity: float32 [queries, k].
      is_right: bool [queries, k], whether they are of the query's class; None if not all images have one.
    """

    numbers: np.ndarray
    similarity: np.ndarray
    is_right: np.ndarray | None


def choose_queries(source: Source, names: Sequence[str]) -> list[int]:
    """Numbers of the images that the user names by their number in the source, or by their path or the end of it."""
    paths = getattr(source, "paths", None)
    return [_number_of(name, source, paths) for name in names]


def check_enough(source: Source, count: int, queries: int | None, k: int) -> None:
    """Refuses more random queries than there are images, of which there are `count`, and more neighbours."""
    if (queries or 0) > count:
        raise InputError(f"--retrieve={queries}: {source.name} {source.split} has only {count:,} images")
    knn.check_enough(k, count - 1, f"{source.name} {source.split}", "--neighbours")


def random_queries(numbers: np.ndarray, count: int, seed: int) -> list[int]:
    """So many of these images, in rising order."""
    return np.sort(np.random.default_rng(seed).choice(numbers, count, replace=False)).tolist()


def retrieve(
    found: CropFeatures, layer: FeatureFile, queries: Sequence[int], k: int, search: Callable = knn.nearest
) -> Retrieved:
    """The `k` nearest images of each query among all others.

    Args:
      found: which images there are.
      layer: their features, normalised.
      queries: numbers of images in the source.
    """
    for query in queries:
        if query not in found.numbers:
            raise InputError(f"--queries: image {query} cannot be read, or there is none of this number")
    rows = np.searchsorted(found.numbers, queries)
    nearest = search(layer, np.concatenate([layer[row : row + 1] for row in rows]), k, leave_out=rows)
    is_right = None
    if found.labels is not None and found.labels.min() >= 0:
        is_right = found.labels[nearest.numbers] == found.labels[rows, None]
    return Retrieved(found.numbers[nearest.numbers], nearest.similarity, is_right)


def picture(source: Source, queries: Sequence[int], retrieved: dict[str, Retrieved]) -> np.ndarray:
    """A row for each query: its image, then for each network, under its name, the neighbours that it finds.

    Where there are labels, a frame tells whether a neighbour is of the query's class.
    """
    needed = np.unique(np.concatenate([queries, *(found.numbers.ravel() for found in retrieved.values())]))
    shown = tiles(source, needed)
    groups = {"query": pictures.grid(shown[np.searchsorted(needed, queries)], 1)}
    for name, found in retrieved.items():
        neighbours = shown[np.searchsorted(needed, found.numbers.ravel())]
        if found.is_right is not None:
            colours = [RIGHT if right else WRONG for right in found.is_right.ravel()]
            framed = [pictures.outline(t, 0, 0, _SIDE, c, _FRAME) for t, c in zip(neighbours, colours, strict=True)]
            neighbours = np.stack(framed)
        groups[name] = pictures.grid(neighbours, found.numbers.shape[1])
    return pictures.side_by_side(groups, _FONT_SIZE)


def described(source: Source, queries: Sequence[int], retrieved: dict[str, Retrieved]) -> list[dict[str, Any]]:
    """Where each query and its neighbours come from, and how similar they are, in plain values."""

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
        raise InputError(f"{what}: the images of {where} have no names; give a number, from 0 on")
    ending = os.sep + name.lstrip(os.sep)
    path = os.path.abspath(os.path.expanduser(name))  # noqa: PTH100, PTH111 (as `files.absolute`)
    found = [i for i, p in enumerate(paths) if p == name or os.path.abspath(p) == path]  # noqa: PTH100
    found = found or [i for i, p in enumerate(paths) if p.endswith(ending)]
    if not found:
        raise InputError(f"{what}: no such image in {where}; give the path of one, the end of its path, or a number")
    if len(found) > 1:
        raise InputError(f"{what}: {len(found):,} images of {where} are called so, such as {paths[found[0]]} and "
                         f"{paths[found[1]]}")  # fmt: skip
    return found[0]


def tiles(source: Source, numbers: np.ndarray, side: int = _SIDE) -> np.ndarray:
    """uint8 [n, side, side, 3], the middle of each image, as large as it is; `numbers` rise."""
    chosen = share.of_numbers(source, numbers)
    report = InputReport(chosen)
    report.enlarged = True  # to be looked at, which needs no warning
    batches = pipeline.evaluation_batches(chosen, pipeline.Crops(side, side), 64, report)
    with report.one_line_errors():
        return np.concatenate([images.unscale(batch["image"][:, 0]).numpy() for batch in batches])
