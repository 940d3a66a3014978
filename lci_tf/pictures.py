"""Pictures made of many small ones."""

import numpy as np
from PIL import Image, ImageDraw, ImageFont

BACKGROUND = 255
_GAP = 4


def grid(tiles: np.ndarray, columns: int) -> np.ndarray:
    """uint8 [n, height, width, 3] to one picture, row by row, with gaps between."""
    count, height, width, _ = tiles.shape
    rows = -(-count // columns)
    picture = np.full([rows * (height + _GAP) + _GAP, columns * (width + _GAP) + _GAP, 3], BACKGROUND, np.uint8)
    for i, tile in enumerate(tiles):
        top, left = _GAP + i // columns * (height + _GAP), _GAP + i % columns * (width + _GAP)
        picture[top : top + height, left : left + width] = tile
    return picture


def fit(image: np.ndarray, side: int) -> np.ndarray:
    """The whole image in a square of this side, centred."""
    picture = Image.fromarray(image)
    factor = side / max(picture.size)
    size = [max(1, round(length * factor)) for length in picture.size]
    square = Image.new("RGB", (side, side), (BACKGROUND,) * 3)
    square.paste(picture.resize(size, Image.Resampling.LANCZOS), ((side - size[0]) // 2, (side - size[1]) // 2))
    return np.asarray(square)


def side_by_side(pictures: dict[str, np.ndarray]) -> np.ndarray:
    """Pictures of one height, from left to right, each under its caption."""
    caption_height = 22
    height = max(p.shape[0] for p in pictures.values()) + caption_height
    width = sum(p.shape[1] for p in pictures.values()) + 5 * _GAP * (len(pictures) - 1)
    canvas = Image.new("RGB", (width, height), (BACKGROUND,) * 3)
    draw, left = ImageDraw.Draw(canvas), 0
    for caption, picture in pictures.items():
        draw.text((left + _GAP, 4), caption, fill=(40, 40, 40), font=ImageFont.load_default(14))
        canvas.paste(Image.fromarray(picture), (left, caption_height))
        left += picture.shape[1] + 5 * _GAP
    return np.asarray(canvas)


def save(path, picture: np.ndarray) -> None:
    Image.fromarray(picture).save(path)
