"""Reads region proposals from files: a CSV, or the MATLAB files that the authors of Fast R-CNN provide."""

import csv
import hashlib
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from lci_tf.errors import InputError
from lci_tf.evaluation.voc.detection.annotations import Annotated

_COLUMNS = ["image", "xmin", "ymin", "xmax", "ymax"]


def read(paths: Sequence[str], annotated: Sequence[Annotated], flag: str = "--proposals") -> list[np.ndarray]:
    """Reads the proposals for these images, float32 [n, 4] for each, see `boxes`.

    Args:
      paths: files that together have proposals for all images: CSV with the columns image, xmin, ymin, xmax, ymax, with
        VOC's number of the image and pixels counted from 1; or `.mat` with `images` and `boxes`, as for Fast R-CNN.
      flag: the flag that gives the paths, for messages.

    Raises:
      InputError: if a file has another form, an image has no proposals, or proposals are not within their image.
    """
    found: dict[str, np.ndarray] = {}
    for path in paths:
        place, what = pathlib.Path(path).expanduser(), f"{flag}={path}"
        if not place.is_file():
            raise InputError(f"{what}: no such file")
        found |= _read_mat(place, what) if place.suffix == ".mat" else _read_csv(place, what)
    _check(found, annotated, f"{flag}={','.join(map(str, paths))}")
    return [found[one.number] for one in annotated]


def digest(proposals: Sequence[np.ndarray]) -> str:
    """16 hexadecimal digits that identify all proposals."""
    total = hashlib.sha256()
    for boxes in proposals:
        total.update(len(boxes).to_bytes(4, "little"))
        total.update(boxes.tobytes())
    return total.hexdigest()[:16]


def _read_csv(place, what) -> Mapping[str, np.ndarray]:
    by_image: dict[str, list[list[float]]] = {}
    with place.open(newline="") as file:
        rows = csv.reader(file)
        if (header := next(rows, None)) != _COLUMNS:
            raise InputError(f"{what}: expected a first line {','.join(_COLUMNS)}, got {','.join(header or [])!r}")
        for row in rows:
            try:
                number, edges = row[0], [float(text) - 1 for text in row[1:]]
            except (ValueError, IndexError):
                edges = []
            if len(edges) != 4:
                raise InputError(
                    f"{what}: line {rows.line_num}: expected an image and four numbers, got {','.join(row)!r}"
                )
            by_image.setdefault(number, []).append(edges)
    return {number: np.array(boxes, np.float32) for number, boxes in by_image.items()}


def _read_mat(place, what) -> Mapping[str, np.ndarray]:
    """`images` and `boxes` have a cell per image; boxes are rows of top, left, bottom and right, counted from 1."""
    import scipy.io  # a dependency of scikit-learn

    try:
        held = scipy.io.loadmat(place)
        images = [str(np.squeeze(cell)) for cell in held["images"].ravel()]
        boxes = [cell.astype(np.float32).reshape(-1, 4)[:, [1, 0, 3, 2]] - 1 for cell in held["boxes"].ravel()]
    except Exception as error:  # SciPy raises all kinds of errors for damaged or other files
        raise InputError(f"{what}: expected a MATLAB file with images and boxes ({error})") from None
    if len(images) != len(boxes):
        raise InputError(f"{what}: has {len(images):,} images, but boxes for {len(boxes):,}")
    return dict(zip(images, boxes, strict=True))


def _check(found, annotated, what):
    missing = [one.number for one in annotated if not len(found.get(one.number, ()))]
    if missing:
        raise InputError(f"{what}: has proposals for {len(found):,} images, but none for {len(missing):,} that are "
                         f"needed, such as {missing[0]}; are they for other images?")  # fmt: skip
    for one in annotated:
        boxes = found[one.number]
        wrong = (boxes[:, :2] < 0).any(1) | (boxes[:, 2] >= one.width) | (boxes[:, 3] >= one.height)
        wrong |= (boxes[:, 2:] < boxes[:, :2]).any(1)
        if wrong.any():
            edges = ", ".join(f"{edge + 1:g}" for edge in boxes[wrong.argmax()])
            raise InputError(f"{what}: a proposal for {one.number} is {edges}, which is not a box within its "
                             f"{one.width}×{one.height} pixels; are they for other images?")  # fmt: skip
