import numpy as np

from lci_tf.plotting import drawn_boxes
from lci_tf.plotting.drawn_boxes import Drawn

IMAGE = np.full([50, 100, 3], 10, np.uint8)


def places(picture, colour):
    """Rows and columns of a colour: first and last of each."""
    rows, columns = np.nonzero((picture == colour).all(axis=2))
    return rows.min(), rows.max(), columns.min(), columns.max()


def test_a_box_is_drawn_where_it_is():
    picture = drawn_boxes.tile(IMAGE, [Drawn((10, 20, 39, 29), drawn_boxes.RIGHT, width=1)], side=200)
    # Twice as large, and 50 pixels of white above the image.
    assert places(picture, drawn_boxes.RIGHT) == (50 + 40, 50 + 59, 20, 79)
    assert picture.shape == (220, 200, 3)


def test_words_stay_within_the_picture():
    boxes = [Drawn((95, 0, 99, 9), drawn_boxes.WRONG, "a long word 100"), Drawn((0, 0, 9, 9), drawn_boxes.RIGHT, "two")]
    picture = drawn_boxes.tile(IMAGE[:, :50], boxes[1:], side=100)
    assert places(picture, drawn_boxes.RIGHT)[0] >= 0
    picture = drawn_boxes.tile(IMAGE, boxes[:1], "a caption", side=200)
    top, _, left, right = places(picture, drawn_boxes.WRONG)
    assert top >= 0 and right <= 199 and right - left > 60
    assert (picture[201:] < 100).any()  # the caption


def test_what_lies_beyond_the_image_does_not_fail():
    drawn_boxes.tile(IMAGE, [Drawn((-50, -50, 300, 300), drawn_boxes.TRUTH, "x"), Drawn((5, 5, 5, 5), (1, 2, 3))])
