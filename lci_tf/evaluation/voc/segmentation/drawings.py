"""Draws masks over their images in VOC's colours, next to the truth, and where they are wrong."""

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from lci_tf.evaluation.voc.segmentation.loading import Example
from lci_tf.evaluation.voc.segmentation.masks import VOID, palette
from lci_tf.plotting import pictures

BACKGROUND = "background"
_OPAQUE, _WASHED = 0.6, 0.7  # opacity of colours over an image, and of white
_VOID_COLOUR, _WRONG = (224, 224, 192), (220, 30, 30)  # VOC's colour for void
_CELL = (200, 260)  # height and width
_FONT_SIZE, _LINE = 13, 20


def colours(names: Sequence[str]) -> np.ndarray:
    """VOC's colours of the classes, uint8 [classes, 3]; only a class called background is black."""
    first = 0 if names[0] == BACKGROUND else 1
    return palette()[first : first + len(names)]


def comparison(pairs: Sequence[tuple[Example, np.ndarray]], names: Sequence[str]) -> np.ndarray:
    """A row for each image: the image, the true mask, the predicted mask, and where that is wrong."""
    columns: dict[str, list[np.ndarray]] = {"image": [], "truth": [], "found": [], "wrong": []}
    for example, found in pairs:
        image = _as_large(example.image, example.mask.shape)
        cells = (image, overlaid(image, example.mask, names), overlaid(image, found, names),
                 errors(image, example.mask, found))  # fmt: skip
        for column, cell in zip(columns.values(), cells, strict=True):
            column.append(_fit(cell))
    seen = np.unique(np.concatenate([mask.ravel() for example, found in pairs for mask in (example.mask, found)]))
    return _with_legend({caption: np.stack(cells) for caption, cells in columns.items()}, names, seen)


def examples(shown: Sequence[Example], names: Sequence[str]) -> np.ndarray:
    """A row for each image: the image, and its mask over it."""
    images = np.stack([_fit(example.image) for example in shown])
    over = np.stack([_fit(overlaid(example.image, example.mask, names)) for example in shown])
    seen = np.unique(np.concatenate([example.mask.ravel() for example in shown]))
    return _with_legend({"image": images, "mask": over}, names, seen)


def overlaid(image: np.ndarray, mask: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """The image tinted with the colours of its classes, except for the background."""
    table = np.full([256, 3], _VOID_COLOUR, np.uint8)
    table[: len(names)] = colours(names)
    opaque = np.full(256, _OPAQUE)
    if names[0] == BACKGROUND:
        opaque[0] = 0.0
    return _mixed(image, table[mask], opaque[mask][..., np.newaxis])


def errors(image: np.ndarray, truth: np.ndarray, found: np.ndarray) -> np.ndarray:
    """The image, faded, with red where the mask is wrong."""
    wrong = ((truth != found) & (truth != VOID))[..., np.newaxis]
    washed = _mixed(image, np.full_like(image, 255), _WASHED)
    return np.where(wrong, _mixed(image, np.broadcast_to(np.array(_WRONG, np.uint8), image.shape), _OPAQUE), washed)


def _mixed(image, colour, share):
    return np.round((1 - share) * image + share * colour).astype(np.uint8)


def _as_large(image, size):
    if image.shape[:2] == size:
        return image
    return np.asarray(Image.fromarray(image).resize(size[::-1], Image.Resampling.BILINEAR))


def _fit(picture):
    """Fits a picture into a cell, centred."""
    height, width = picture.shape[:2]
    factor = min(_CELL[0] / height, _CELL[1] / width)
    size = [max(1, round(width * factor)), max(1, round(height * factor))]
    cell = Image.new("RGB", _CELL[::-1], (pictures.BACKGROUND,) * 3)
    resized = Image.fromarray(picture).resize(size, Image.Resampling.LANCZOS)
    cell.paste(resized, ((_CELL[1] - size[0]) // 2, (_CELL[0] - size[1]) // 2))
    return np.asarray(cell)


def _with_legend(columns, names, seen):
    """The table, with a legend of its classes below it."""
    table = pictures.table(columns)
    entries = [(names[i], colours(names)[i]) for i in seen if i < len(names)]
    entries += [("not counted", _VOID_COLOUR)] if VOID in seen else []
    font, left, line, places = ImageFont.load_default(_FONT_SIZE), 4, 0, []
    for name, _ in entries:
        width = _LINE + round(font.getlength(name)) + 14
        if left + width > table.shape[1] and left > 4:
            left, line = 4, line + 1
        places.append((left, line))
        left += width
    legend = Image.new("RGB", (table.shape[1], (line + 1) * _LINE + 8), (pictures.BACKGROUND,) * 3)
    draw = ImageDraw.Draw(legend)
    for (name, colour), (left, line) in zip(entries, places, strict=True):
        top = line * _LINE + 4
        draw.rectangle((left, top, left + 14, top + 13), fill=tuple(int(c) for c in colour), outline=(120, 120, 120))
        draw.text((left + _LINE, top + 7), name, fill=(40, 40, 40), font=font, anchor="lm")
    return np.concatenate([table, np.asarray(legend)])
