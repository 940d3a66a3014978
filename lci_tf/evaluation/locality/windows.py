"""Draws the windows that gave transformed and natural images away."""

import numpy as np

from lci_tf.evaluation.locality.bags import step_between
from lci_tf.evaluation.locality.pairs import Pairs
from lci_tf.evaluation.locality.telling import Evidence
from lci_tf.plotting import pictures

_SHOWN = 4  # images per class
_TILE = 128  # pixels
_FRAME = (255, 64, 32)


def strip(name: str, window: int, evidence: Evidence, pairs: Pairs) -> np.ndarray:
    """Draws natural windows on the left and transformed ones on the right, each next to the image that it is from.

    For each class, it shows the strongest window of those correctly classified images whose windows are strongest.

    Args:
      name: name of the transformation.
      window: side of the windows, in pixels.
      evidence: the evidence for `pairs`.
      pairs: the test images.

    Returns:
      uint8 [height, width, 3].
    """
    blocks = {}
    for caption, sign, of_class, stack, is_right in zip(
        ("natural", name), (-1, 1), evidence, pairs, evidence.is_right, strict=True
    ):
        tiles = []
        for number, top, left in _strongest(sign * of_class, is_right, step_between(window)):
            image = pictures.levels(stack[number])
            tiles += [_enlarged(image[top : top + window, left : left + window]), _framed(image, top, left, window)]
        blank = np.full([2 * _SHOWN - len(tiles), _TILE, _TILE, 3], pictures.BACKGROUND, np.uint8)
        shown = np.concatenate([np.array(tiles, np.uint8).reshape([-1, _TILE, _TILE, 3]), blank])
        blocks[f"{caption}, r = {window}"] = pictures.grid(shown, 2 * _SHOWN)
    return pictures.side_by_side(blocks)


def _strongest(evidence, is_right, step) -> list[tuple[int, int, int]]:
    """(image, top, left) of the strongest window, for the images in which it is strongest."""
    columns = evidence.shape[2]
    flat = evidence.reshape([len(evidence), -1])
    strengths = np.where(is_right, flat.max(axis=1), -np.inf)
    chosen = [i for i in np.argsort(-strengths, kind="stable")[:_SHOWN] if is_right[i]]
    places = [divmod(int(flat[i].argmax()), columns) for i in chosen]
    return [(int(i), row * step, column * step) for i, (row, column) in zip(chosen, places, strict=True)]


def _enlarged(tile):
    """Enlarges to `_TILE` pixels without smoothing."""
    nearest = np.arange(_TILE) * len(tile) // _TILE
    return tile[nearest][:, nearest]


def _framed(image, top, left, window):
    scale = _TILE / len(image)
    top, left, side = (round(v * scale) for v in (top - 1, left - 1, window + 2))
    return pictures.outline(_enlarged(image), top, left, side, _FRAME)
