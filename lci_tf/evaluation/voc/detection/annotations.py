"""Reads VOC's annotations: the objects in each image, with their boxes and classes, and which are difficult."""

import dataclasses
import hashlib
import pathlib
import xml.etree.ElementTree
from collections.abc import Sequence

import numpy as np
from PIL import Image

from lci_tf.data.sets.voc import CLASSES
from lci_tf.data.source import ImageFiles
from lci_tf.errors import InputError
from lci_tf.imaging import decoding

_EDGES = ("xmin", "ymin", "xmax", "ymax")
_ORIENTATION = 0x0112  # EXIF tag


@dataclasses.dataclass(frozen=True)
class Annotated:
    """An image and the objects in it.

    Attributes:
      path: path of the image file.
      width, height: size of the image in pixels.
      boxes: float32 [n, 4], see `boxes`.
      classes: int64 [n], indices in `CLASSES`.
      difficult: bool [n]. Such objects are not used in training, and in a test they need not be found.
    """

    path: pathlib.Path
    width: int
    height: int
    boxes: np.ndarray
    classes: np.ndarray
    difficult: np.ndarray

    @property
    def number(self) -> str:
        """VOC's number of the image, such as 000005."""
        return self.path.stem


def read(source: ImageFiles) -> list[Annotated]:
    """Reads the annotations of all images of a split, in VOC's layout.

    Raises:
      InputError: if an image or its annotation is missing or damaged, or a box is not within its image.
    """
    if not source.paths:
        raise InputError(f"{source.name} {source.split}: lists no images")
    return [_read_one(pathlib.Path(path)) for path in source.paths]


def digest(annotated: Sequence[Annotated]) -> str:
    """16 hexadecimal digits that identify all objects."""
    total = hashlib.sha256()
    for one in annotated:
        total.update(f"{one.number} {one.width} {one.height}".encode())
        for values in (one.boxes, one.classes, one.difficult):
            total.update(values.tobytes())
    return total.hexdigest()[:16]


def _read_one(path):
    place = path.parents[1] / "Annotations" / f"{path.stem}.xml"
    try:
        root = xml.etree.ElementTree.parse(place).getroot()
    except FileNotFoundError:
        raise InputError(f"{place}: no such annotation, though ImageSets/Main lists the image {path.stem}") from None
    except xml.etree.ElementTree.ParseError as error:
        raise InputError(f"{place}: not an XML annotation ({error})") from None
    width, height = _size_of_image(path, place)
    said = tuple(root.findtext(f"size/{name}") for name in ("width", "height"))
    if None not in said and said != (str(width), str(height)):
        raise InputError(f"{place}: describes an image of {said[0]}×{said[1]} pixels, but {path} has {width}×{height}")
    objects = root.findall("object")
    return Annotated(
        path=path,
        width=width,
        height=height,
        boxes=np.array([_box(found, place, width, height) for found in objects], np.float32).reshape(-1, 4),
        classes=np.array([_class(found, place) for found in objects], np.int64),
        difficult=np.array([found.findtext("difficult", "0").strip() == "1" for found in objects], bool),
    )


def _size_of_image(path, annotation):
    """Reads the size from the file's header alone, so that ten thousand images take only seconds."""
    try:
        with Image.open(path) as image:
            turned = image.getexif().get(_ORIENTATION, 1) != 1
            size = image.size
    except FileNotFoundError:
        raise InputError(f"{path}: no such image, though ImageSets/Main lists it and {annotation} is there") from None
    except (OSError, Image.DecompressionBombError):
        raise InputError(f"{path}: {decoding.why_refused(path.read_bytes())}") from None
    if turned:
        raise InputError(f"{path}: has an EXIF orientation, so it is unclear where its boxes are; save it upright, "
                         "without that tag")  # fmt: skip
    return size


def _class(found, place):
    name = (found.findtext("name") or "").strip()
    if name not in CLASSES:
        raise InputError(f"{place}: object {name!r} is not one of VOC's twenty classes")
    return CLASSES.index(name)


def _box(found, place, width, height):
    """The box of an object, from VOC's numbers, which count pixels from 1."""
    what = f"{place}: object {(found.findtext('name') or '').strip()!r}"
    texts = [found.findtext(f"bndbox/{edge}") for edge in _EDGES]
    try:
        left, top, right, bottom = (float(text) for text in texts)
    except (TypeError, ValueError):
        raise InputError(f"{what} has no box of four numbers ({', '.join(_EDGES)}), but {texts}") from None
    said = f"{left:g}, {top:g} to {right:g}, {bottom:g}"
    if not (right > left and bottom > top):
        raise InputError(f"{what} has an empty box, {said}")
    # Tools that rescale images count from 0 and in fractions, so one pixel beyond the left or upper edge is tolerated.
    if not (left >= 0 and top >= 0 and right <= width and bottom <= height):
        raise InputError(f"{what} has a box outside the image, {said} in {width}×{height} pixels")
    return max(left - 1, 0), max(top - 1, 0), right - 1, bottom - 1
