import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from lci_tf.config import voc_protocols
from lci_tf.data import open_source
from lci_tf.data.sets.voc import CLASSES
from lci_tf.errors import InputError
from lci_tf.evaluation.voc.detection import annotations, boxes, examples
from lci_tf.evaluation.voc.detection.examples import Images

COLOURS = {"car": (220, 40, 40), "dog": (40, 60, 220), "person": (230, 220, 60)}
PROTOCOL = voc_protocols.resolve("detection", "self_supervised", {"short_side": 96, "rois": 32})


@pytest.fixture(scope="module")
def of(tmp_path_factory, write_voc):
    """Six images with one object each, and proposals around it."""
    place = write_voc(tmp_path_factory.mktemp("voc"), "trainval", 6, per_image=1)
    annotated = annotations.read(open_source("voc/2007", "trainval", [place]))
    rng = np.random.default_rng(0)
    near = [one.boxes.repeat(40, 0) + rng.integers(-12, 13, [40, 4]) for one in annotated]
    proposals = [np.concatenate([b[:, :2], np.maximum(b[:, 2:], b[:, :2] + 3)], 1).astype(np.float32) for b in near]
    sized = zip(annotated, proposals, strict=True)
    return Images(annotated, [boxes.clipped(b, one.width, one.height).numpy() for one, b in sized])


def batches(of, count, **kwargs):
    return list(examples.training_batches(of, PROTOCOL, seed=5, **kwargs).take(count).as_numpy_iterator())


def test_objects_are_where_the_regions_say_mirrored_or_not(of):
    """The mean colour within the box to which a region's target leads."""
    seen = 0
    for batch in batches(of, 12):
        for i, image in enumerate(batch["images"]):
            is_object = batch["labels"][i] > 0
            assert is_object.any()
            reached = boxes.moved(batch["boxes"][i], batch["targets"][i][:, None])[:, 0].numpy()[is_object]
            for box, label in zip(reached, batch["labels"][i][is_object], strict=True):
                left, top, right, bottom = np.round(box).astype(int)
                expected = COLOURS[CLASSES[label - 1]]
                inside = (image[top + 2 : bottom - 1, left + 2 : right - 1].mean((0, 1)) + 1) * 127.5
                np.testing.assert_allclose(inside, expected, atol=12)
                above = (image[max(top - 4, 0), left:right].mean(0) + 1) * 127.5
                assert top < 5 or np.abs(above - expected).max() > 40
                seen += 1
    assert seen > 50


def test_batches_are_functions_of_the_seed_and_the_step(of):
    first, later = batches(of, 5), batches(of, 2, first_step=3)
    for one, other in zip(first[3:], later, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])
    assert [batch["step"] for batch in first] == [0, 1, 2, 3, 4]


def test_an_epoch_is_every_image_and_its_mirror_image_once():
    drawn = [examples.in_order(3, position, 7) for position in range(28)]
    everything = {(number, mirror) for number in range(7) for mirror in (False, True)}
    assert set(drawn[:14]) == set(drawn[14:]) == everything
    assert drawn[:14] != drawn[14:] and drawn[:14] != [examples.in_order(4, position, 7) for position in range(14)]


def test_sizes_are_drawn_of_the_protocols_and_nothing_is_cut_off(of):
    sides = set()
    for batch in batches(of, 20):
        for image, regions in zip(batch["images"], batch["boxes"], strict=True):
            height = np.abs(image).sum((1, 2)).nonzero()[0].max() + 1
            width = np.abs(image).sum((0, 2)).nonzero()[0].max() + 1
            sides.add(min(height, width))
            assert regions[:, 2].max() <= width - 0.99 and regions[:, 3].max() <= height - 0.99
    assert sides <= {round(side * 96 / 600) for side in PROTOCOL.train_sides} and len(sides) == 5


def test_carried_over_boxes_show_the_same():
    before, after = np.zeros([30, 60, 3]), np.zeros([45, 120, 3])
    np.testing.assert_allclose(
        examples.carried_over(np.float32([[0, 0, 59, 29], [10, 10, 19, 19]]), before, after),
        [[0, 0, 119, 44], [20, 15, 39, 29]],
    )


def test_crops_are_the_centres_of_images(of):
    made = examples.crops([one.path for one in of.annotated[:2]], 32)
    assert made.shape == (2, 32, 32, 3)
    image = Image.open(of.annotated[0].path)
    middle = np.asarray(image).mean() / 127.5 - 1
    assert float(tf.reduce_mean(made[0])) == pytest.approx(middle, abs=0.15)


def test_without_any_object_to_train_on_there_is_one_line(of):
    hard = [
        annotations.Annotated(o.path, o.width, o.height, o.boxes, o.classes, np.ones(len(o.boxes), bool))
        for o in of.annotated
    ]
    with pytest.raises(InputError, match="no training image has an object that is not difficult"):
        examples.training_batches(Images(hard, of.proposals), PROTOCOL, 0)
