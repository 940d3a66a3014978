import numpy as np
import pytest
from PIL import Image

COLOURS = {"car": (220, 40, 40), "dog": (40, 60, 220), "person": (230, 220, 60)}


@pytest.fixture(scope="session")
def write_voc():
    """Writes rectangles of one colour per class on noise, in VOC's layout: a split's images with their annotations."""

    def write(place, split, count, seed=0, side=64, per_image=2):
        rng = np.random.default_rng(seed)
        for folder in ("JPEGImages", "Annotations", "ImageSets/Main"):
            (place / folder).mkdir(parents=True, exist_ok=True)
        numbers = [f"{seed * 1000 + i:06d}" for i in range(count)]
        (place / "ImageSets" / "Main" / f"{split}.txt").write_text("".join(f"{number}\n" for number in numbers))
        for number in numbers:
            height, width = side, side + int(rng.integers(0, side // 2))
            pixels = rng.integers(90, 140, [height, width, 3], np.uint8)
            objects = []
            for name in rng.choice(list(COLOURS), per_image):
                w, h = rng.integers(side // 4, side // 2, 2)
                left, top = rng.integers(0, width - w), rng.integers(0, height - h)
                pixels[top : top + h, left : left + w] = COLOURS[name]
                objects.append((name, left + 1, top + 1, left + w, top + h))
            Image.fromarray(pixels).save(place / "JPEGImages" / f"{number}.jpg", quality=95)
            write_annotation(place, number, objects, width, height)
        return place

    return write


def write_annotation(place, number, objects, width, height):
    """`objects` are (name, xmin, ymin, xmax, ymax), and perhaps whether they are difficult."""
    listed = "".join(
        f"<object><name>{name}</name><difficult>{int(any(difficult))}</difficult><bndbox><xmin>{left}</xmin>"
        f"<ymin>{top}</ymin><xmax>{right}</xmax><ymax>{bottom}</ymax></bndbox></object>"
        for name, left, top, right, bottom, *difficult in objects
    )
    size = f"<size><width>{width}</width><height>{height}</height><depth>3</depth></size>"
    (place / "Annotations" / f"{number}.xml").write_text(f"<annotation>{size}{listed}</annotation>")


@pytest.fixture(scope="session")
def annotate():
    return write_annotation
