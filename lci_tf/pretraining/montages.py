"""Pictures of a pre-training: the transformations, F's patches, C's first filters."""

import numpy as np

from lci_tf.plotting import pictures

_TILE = 128  # pixels, to about which small images are enlarged
_FILTER = 64
_FRAME = (255, 64, 32)


def transformations(stacks: dict[str, np.ndarray], count: int = 8) -> np.ndarray:
    """A row for each source image, a column for each class.

    Args:
      stacks: label -> images [n, h, w, 3] in [-1, 1]; the i-th of each label was made from the same source image.
      count: largest number of rows.

    Returns:
      uint8 [height, width, 3].
    """
    return pictures.table({label: _tiles(images[:count]) for label, images in stacks.items()})


def patches(
    original: np.ndarray,
    erased: np.ndarray,
    inpainted: np.ndarray,
    autoencoded: np.ndarray | None = None,
    count: int = 8,
) -> np.ndarray:
    """Inputs and outputs of F, a row for each patch: e, e with noise in its centre, r, F(e).

    Args:
      original, erased, inpainted, autoencoded: [n, p, p, 3] in [-1, 1], which the noise may exceed.
      count: largest number of rows.

    Returns:
      uint8 [height, width, 3].
    """
    columns = {"original": original, "erased": erased, "inpainted": inpainted, "autoencoded": autoencoded}
    return pictures.table({name: _tiles(p[:count]) for name, p in columns.items() if p is not None})


def lci_examples(
    images: np.ndarray, inpainted: np.ndarray, places: np.ndarray, patch_size: int, count: int = 8
) -> np.ndarray:
    """Images, the same images with an inpainted patch, and these again with a thin frame around the patch.

    Args:
      images: [n, h, w, 3] in [-1, 1].
      inpainted: the same images with an inpainted patch.
      places: int [n, 2], row and column of each patch's upper left corner; patches may extend beyond the image.
      patch_size: side of the patches, in pixels.
      count: largest number of rows.

    Returns:
      uint8 [height, width, 3].
    """
    plain = _tiles(inpainted[:count])
    factor = plain.shape[1] // images.shape[1]
    framed = [
        pictures.outline(tile, top * factor, left * factor, patch_size * factor, _FRAME)
        for tile, (top, left) in zip(plain, places[:count].tolist(), strict=True)
    ]
    return pictures.table({"image": _tiles(images[:count]), "inpainted": plain, "where": np.stack(framed)})


def filters(kernel: np.ndarray, columns: int = 16) -> np.ndarray:
    """The filters of a first convolution, each scaled to its own range.

    Args:
      kernel: [h, w, 3, n].
      columns: number of filters per row.

    Returns:
      uint8 [height, width, 3].
    """
    each = pictures.filter_levels(kernel)
    return pictures.grid(_enlarged(each, _FILTER), min(columns, len(each)))


def _tiles(images):
    """From [-1, 1] to uint8, enlarged to be clearly visible."""
    return _enlarged(pictures.levels(images), _TILE)


def _enlarged(tiles, side):
    return pictures.enlarge(tiles, max(1, round(side / tiles.shape[1])))
