"""Reads and writes masks: image files whose pixels are numbers of classes, such as VOC's PNGs with a palette."""

import pathlib

import numpy as np
from PIL import Image, UnidentifiedImageError

from lci_tf.errors import InputError

VOID = 255  # no class: ignored in training and testing
UNKNOWN = 254  # in tables of classes, neither a class nor void
LOSSLESS = (".png", ".bmp", ".gif", ".tif", ".tiff")


def read(path: str) -> np.ndarray:
    """The numbers in a mask, uint8 [height, width]: entries of a palette, or grey levels."""
    if pathlib.Path(path).suffix.lower() not in LOSSLESS:
        raise InputError(f"{path}: a mask must be a PNG or another lossless format, which preserves its numbers")
    try:
        with Image.open(path) as picture:
            if picture.mode not in ("P", "L", "1"):
                raise InputError(f"{path}: has mode {picture.mode}; expected a mask with a palette, or 8 bits of grey, "
                                 "whose pixels are numbers of classes")  # fmt: skip
            return np.asarray(picture).astype(np.uint8)
    except FileNotFoundError:
        raise InputError(f"{path}: no such mask") from None
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: cannot be read as a mask; is it an image, and complete?") from None


def classes_of(numbers: np.ndarray, table: np.ndarray, path: str, names: tuple[str, ...]) -> np.ndarray:
    """Converts the numbers in a mask to classes 0, 1, … and `VOID`.

    Args:
      table: uint8 [256], the class of every number, `VOID` or `UNKNOWN`.
      path, names: path of the mask and names of the classes, for messages.
    """
    classes = table[numbers]
    if (classes == UNKNOWN).any():
        row, column = np.argwhere(classes == UNKNOWN)[0]
        raise InputError(
            f"{path}: has {numbers[row, column]} at row {row}, column {column}, which is neither one of the "
            f"{len(names)} classes nor void; name it in --class_names, or give it as --void"
        )
    return classes


def table_of(numbers: tuple[int, ...], void: tuple[int, ...]) -> np.ndarray:
    """The class of every number in a mask, uint8 [256]: its place in `numbers`, or void. 255 is always void."""
    table = np.full(256, UNKNOWN, np.uint8)
    table[list(numbers)] = np.arange(len(numbers))
    table[[*void, VOID]] = VOID
    return table


def palette() -> np.ndarray:
    """VOC's colours, uint8 [256, 3]: bits 0, 3, 6 of a number are bits 7, 6, 5 of red, the next of green, then blue."""
    numbers = np.arange(256)
    colours = np.zeros([256, 3], np.uint8)
    for j in range(3):
        for channel in range(3):
            bit = (numbers >> (3 * j + channel)) & 1
            colours[:, channel] += (bit << (7 - j)).astype(np.uint8)
    return colours


def write(path: pathlib.Path, numbers: np.ndarray) -> None:
    """Writes a mask as VOC does, as a PNG with a palette."""
    picture = Image.fromarray(numbers.astype(np.uint8))
    picture.putpalette(palette().tobytes())  # turns grey levels into entries of the palette
    picture.save(path)
