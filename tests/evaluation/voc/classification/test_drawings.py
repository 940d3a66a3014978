import numpy as np
import pytest
from PIL import Image

from lci_tf.data.source import PixelArray
from lci_tf.evaluation.voc.classification import drawings, testing
from lci_tf.evaluation.voc.classification.training import Scores

NAMES = ("cat", "dog", "unicorn")


@pytest.fixture(scope="module")
def tested():
    """Twelve grey images, each lighter than the one before; the first and last cannot be read."""
    pixels = np.repeat(np.arange(12, dtype=np.uint8) * 20, 30 * 40 * 3).reshape(12, 30, 40, 3)
    labels = np.zeros([12, 3], np.int8)
    labels[[2, 4, 6], 0], labels[[3, 9], 1], labels[5, 1] = 1, 1, -1
    source = PixelArray(name="grey", split="all", count=12, pixels=pixels, labels=labels, label_kind="multi-label",
                        label_names=NAMES)  # fmt: skip
    scores = np.zeros([10, 3])
    scores[:, 0] = [9, 3, 8, 2, 7, 1, 6, 5, 4, 0]  # image 1 is taken for a cat, 4 and 6 hardly
    scores[:, 1] = np.arange(10)
    return source, Scores(scores[:, None], labels[1:11], np.arange(1, 11))


def test_the_worst_mistakes_are_the_first_wrong_and_the_last_right(tested):
    source, found = tested
    picture = drawings.worst_mistakes(source, found.logits[:, 0], found.labels, found.numbers, [0])
    step = drawings._SIDE + 4
    middles = [picture[22 + 4 + drawings._SIDE // 2, 4 + i * step + drawings._SIDE // 2] for i in range(1, 9)]
    levels = [round(middle.mean() / 20) for middle in middles]
    # Not cats, from the highest score on; then the cats, from the lowest; a place without an image is white.
    assert levels == [1, 3, 5, 7, 6, 4, 2, 13]


def test_both_pictures_are_files_and_in_tensorboard(tested, tmp_path):
    source, found = tested
    results = testing.evaluate(found.logits, found.labels, NAMES)
    drawings.save_test(tmp_path, source, found.logits[:, 0], found, results)
    for name in (drawings.CURVES, drawings.MISTAKES):
        assert np.asarray(Image.open(tmp_path / name)).std() > 5
    (events,) = (tmp_path / "tensorboard").iterdir()
    assert b"worst_mistakes" in events.read_bytes() and b"precision_recall" in events.read_bytes()


def test_a_class_without_images_has_no_curve(tested):
    _, found = tested
    per_class = testing.evaluate(found.logits, found.labels, NAMES)["one_crop"]["per_class"]
    figure = drawings.precision_recall(found.logits[:, 0], found.labels, NAMES, per_class)
    assert [axes.get_title("left").split()[0] for axes in figure.axes] == ["cat", "dog"]
