"""Pictures composed of many small images, for the screen: grids, tables, frames, captions. All are uint8 arrays."""

import os
from collections.abc import Mapping

import numpy as np
from PIL import Image, ImageDraw, ImageFont

BACKGROUND = 255
_GAP = 4
_CAPTION_HEIGHT = 22
_FONT_SIZE = 14
_INK = (40, 40, 40)


def levels(images: np.ndarray) -> np.ndarray:
    """From [-1, 1] to uint8 in 0…255. Values outside are clipped; NaN and infinity become grey, so that they show."""
    return np.round((np.clip(_finite(images), -1, 1) + 1) * 127.5).astype(np.uint8)


def filter_levels(kernel: np.ndarray) -> np.ndarray:
    """From the kernel of a first convolution [h, w, 3, n] to images, uint8 [n, h, w, 3], each scaled to its range."""
    each = _finite(np.moveaxis(kernel, -1, 0))
    low, high = each.min(axis=(1, 2, 3), keepdims=True), each.max(axis=(1, 2, 3), keepdims=True)
    middle, half = (high + low) / 2, np.maximum((high - low) / 2, np.finfo(np.float32).tiny)
    return levels((each - middle) / half)


def _finite(values):
    return np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)


def grid(tiles: np.ndarray, columns: int) -> np.ndarray:
    """One picture of images [n, height, width, 3], row by row, with gaps between them."""
    count, height, width, _ = tiles.shape
    rows = -(-count // columns)
    picture = np.full([rows * (height + _GAP) + _GAP, columns * (width + _GAP) + _GAP, 3], BACKGROUND, np.uint8)
    for i, tile in enumerate(tiles):
        top, left = _GAP + i // columns * (height + _GAP), _GAP + i % columns * (width + _GAP)
        picture[top : top + height, left : left + width] = tile
    return picture


def table(columns: dict[str, np.ndarray]) -> np.ndarray:
    """One picture with a column per caption, each of images [rows, height, width, 3], with equal gaps."""
    rows = np.stack(list(columns.values()), axis=1)
    width = rows.shape[3]
    cells = grid(rows.reshape(-1, *rows.shape[2:]), len(columns))
    canvas = Image.new("RGB", (cells.shape[1], cells.shape[0] + _CAPTION_HEIGHT), (BACKGROUND,) * 3)
    draw = ImageDraw.Draw(canvas)
    for i, caption in enumerate(columns):
        font = ImageFont.load_default(_FONT_SIZE)
        if font.getlength(caption) > width:
            font = ImageFont.load_default(_FONT_SIZE * width / font.getlength(caption))
        middle = _GAP + i * (width + _GAP) + width / 2
        draw.text((middle, _CAPTION_HEIGHT / 2 + 2), caption, fill=_INK, font=font, anchor="mm")
    canvas.paste(Image.fromarray(cells), (0, _CAPTION_HEIGHT))
    return np.asarray(canvas)


def fit(image: np.ndarray, side: int) -> np.ndarray:
    """The whole image, scaled to fit into a square of this side and centred."""
    picture = Image.fromarray(image)
    factor = side / max(picture.size)
    size = [max(1, round(length * factor)) for length in picture.size]
    square = Image.new("RGB", (side, side), (BACKGROUND,) * 3)
    square.paste(picture.resize(size, Image.Resampling.LANCZOS), ((side - size[0]) // 2, (side - size[1]) // 2))
    return np.asarray(square)


def caption(text: str, side: int) -> np.ndarray:
    """A square with a word in the middle, as small as it takes to fit."""
    square = Image.new("RGB", (side, side), (BACKGROUND,) * 3)
    font = ImageFont.load_default(_FONT_SIZE)
    if font.getlength(text) > side:
        font = ImageFont.load_default(_FONT_SIZE * side / font.getlength(text))
    ImageDraw.Draw(square).text((side / 2, side / 2), text, fill=_INK, font=font, anchor="mm")
    return np.asarray(square)


def enlarge(tiles: np.ndarray, factor: int) -> np.ndarray:
    """Enlarges images [n, height, width, 3] by an integer factor: every pixel becomes a square."""
    return tiles.repeat(factor, axis=1).repeat(factor, axis=2)


def outline(
    picture: np.ndarray, top: int, left: int, side: int, colour: tuple[int, int, int], width: int = 1
) -> np.ndarray:
    """Draws a thin frame just inside a square; parts outside the picture are not drawn."""
    canvas = Image.fromarray(picture)
    ImageDraw.Draw(canvas).rectangle((left, top, left + side - 1, top + side - 1), outline=colour, width=width)
    return np.asarray(canvas)


def side_by_side(pictures: dict[str, np.ndarray], font_size: int = _FONT_SIZE) -> np.ndarray:
    """One picture of several of the same height, from left to right, each below its caption."""
    caption_height = round(font_size * _CAPTION_HEIGHT / _FONT_SIZE)
    height = max(p.shape[0] for p in pictures.values()) + caption_height
    width = sum(p.shape[1] for p in pictures.values()) + 5 * _GAP * (len(pictures) - 1)
    canvas = Image.new("RGB", (width, height), (BACKGROUND,) * 3)
    draw, left = ImageDraw.Draw(canvas), 0
    for caption, picture in pictures.items():
        draw.text((left + _GAP, 4), caption, fill=_INK, font=ImageFont.load_default(font_size))
        canvas.paste(Image.fromarray(picture), (left, caption_height))
        left += picture.shape[1] + 5 * _GAP
    return np.asarray(canvas)


def with_legend(
    picture: np.ndarray, frames: Mapping[tuple[int, int, int], str], font_size: int = _FONT_SIZE
) -> np.ndarray:
    """The picture, and below it what the colours of its frames mean."""
    font, room = ImageFont.load_default(font_size), round(font_size * _CAPTION_HEIGHT / _FONT_SIZE)
    lengths = [font_size + 2 * _GAP + round(font.getlength(text)) + 5 * _GAP for text in frames.values()]
    height, width, _ = picture.shape
    canvas = Image.new("RGB", (max(width, sum(lengths)), height + room), (BACKGROUND,) * 3)
    canvas.paste(Image.fromarray(picture))
    draw, left, top = ImageDraw.Draw(canvas), _GAP, height + (room - font_size) // 2
    for (colour, text), length in zip(frames.items(), lengths, strict=True):
        draw.rectangle((left, top, left + font_size - 1, top + font_size - 1), outline=colour, width=3)
        draw.text((left + font_size + 2 * _GAP, height + room // 2), text, fill=_INK, font=font, anchor="lm")
        left += length
    return np.asarray(canvas)


def save(path: str | os.PathLike, picture: np.ndarray) -> None:
    Image.fromarray(picture).save(path)
