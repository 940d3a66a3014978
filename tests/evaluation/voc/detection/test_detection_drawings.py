import pathlib

import numpy as np
import pytest

from lci_tf.data.sets.voc import CLASSES
from lci_tf.evaluation.voc.detection import drawings
from lci_tf.evaluation.voc.detection.annotations import Annotated

DOG, CAR = CLASSES.index("dog"), CLASSES.index("car")
IMAGE = Annotated(
    path=pathlib.Path("JPEGImages/000001.jpg"),
    width=100,
    height=100,
    boxes=np.float32([[0, 0, 39, 39], [50, 50, 99, 99]]),
    classes=np.array([DOG, CAR]),
    difficult=np.zeros(2, bool),
)


@pytest.mark.parametrize(
    ("box", "number", "expected"),
    [
        ((0, 0, 39, 35), DOG, "found twice"),
        ((20, 0, 59, 39), DOG, "in the wrong place"),
        ((50, 50, 99, 90), DOG, "really: car"),
        ((60, 0, 99, 30), DOG, "nothing there"),
        ((0, 60, 30, 99), CAR, "nothing there"),
    ],
)
def test_mistakes_are_told_apart(box, number, expected):
    assert drawings.what_is_wrong(IMAGE, np.float32(box), number) == expected
