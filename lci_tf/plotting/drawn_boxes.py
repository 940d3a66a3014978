"""Boxes drawn on photographs, with a word at each."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from lci_tf.plotting import pictures

Colour = tuple[int, int, int]
RIGHT, WRONG, NEITHER, TRUTH = (0, 190, 120), (235, 95, 0), (150, 150, 150), (255, 255, 255)
_LETTERS, _CAPTION = 12, 20


class Drawn(NamedTuple):
    """A box: left, top, right and bottom in pixels of its image, the last included."""

    box: Sequence[float]
    colour: Colour
    word: str = ""
    width: int = 2


def tile(image: np.ndarray, boxes: Sequence[Drawn], caption: str = "", side: int = 260) -> np.ndarray:
    """An image in a square of this side with boxes on it, the last uppermost, and a line of text below."""
    canvas = Image.fromarray(pictures.fit(image, side))
    draw, font = ImageDraw.Draw(canvas), ImageFont.load_default(_LETTERS)
    height, width, _ = image.shape
    factor = side / max(height, width)
    shift = np.array([side - width * factor, side - height * factor]) / 2
    for drawn in boxes:
        corners = (np.array(drawn.box[:2]), np.add(drawn.box[2:], 1))
        (left, top), (right, bottom) = (corner * factor + shift for corner in corners)
        right, bottom = right - 1, bottom - 1
        draw.rectangle((left, top, max(left, right), max(top, bottom)), outline=drawn.colour, width=drawn.width)
        if drawn.word:
            # Above the box if there is room, or else within it; and never beyond the right edge.
            above = top - _LETTERS - 2
            at = (min(left, side - draw.textlength(drawn.word, font) - 3), above if above >= 0 else top)
            around = draw.textbbox(at, drawn.word, font)
            draw.rectangle((around[0] - 2, around[1] - 1, around[2] + 2, around[3] + 1), fill=drawn.colour)
            draw.text(at, drawn.word, fill=(0, 0, 0), font=font)
    with_caption = Image.new("RGB", (side, side + _CAPTION), (pictures.BACKGROUND,) * 3)
    with_caption.paste(canvas, (0, 0))
    if caption:
        ImageDraw.Draw(with_caption).text((side / 2, side + _CAPTION / 2), caption, fill=(40, 40, 40), font=font,
                                          anchor="mm")  # fmt: skip
    return np.asarray(with_caption)
