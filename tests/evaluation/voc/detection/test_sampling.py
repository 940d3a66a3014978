import pathlib

import numpy as np
import pytest

from lci_tf.config.voc_protocols import DETECTION
from lci_tf.evaluation.voc.detection import boxes, sampling
from lci_tf.evaluation.voc.detection.annotations import Annotated

PROTOCOL = DETECTION["fast_rcnn"]
OBJECTS = np.float32([[10, 10, 49, 59], [100, 40, 159, 99], [20, 100, 89, 139]])
HARD = np.float32([200, 10, 239, 49])


@pytest.fixture
def image():
    """Three objects of the classes 4, 7 and 9, and a difficult one of class 2."""
    return Annotated(
        path=pathlib.Path("JPEGImages/000001.jpg"),
        width=250,
        height=150,
        boxes=np.concatenate([OBJECTS, HARD[None]]),
        classes=np.array([4, 7, 9, 2]),
        difficult=np.array([False, False, False, True]),
    )


@pytest.fixture
def proposals():
    """Around all four objects, near and far."""
    rng = np.random.default_rng(0)
    around = np.repeat(np.concatenate([OBJECTS, HARD[None]]), 100, axis=0)
    moved = around + rng.normal(0, 12, around.shape)
    return np.concatenate([moved[:, :2], np.maximum(moved[:, 2:], moved[:, :2] + 5)], axis=1).astype(np.float32)


def drawn(image, proposals, count=64, seed=0):
    return sampling.sample(np.random.default_rng(seed), image, proposals, count, PROTOCOL)


def test_a_quarter_are_objects_and_the_rest_is_background_near_one(image, proposals):
    regions = drawn(image, proposals)
    overlaps = boxes.iou(regions.boxes, OBJECTS)
    is_object = regions.labels > 0
    assert is_object.sum() == 16 and regions.weights.sum() == 64
    assert (overlaps[is_object].max(1) >= 0.5).all()
    assert (overlaps[~is_object].max(1) >= 0.1).all() and (overlaps[~is_object].max(1) < 0.5).all()
    np.testing.assert_array_equal(regions.labels[is_object], 1 + image.classes[overlaps[is_object].argmax(1)])
    np.testing.assert_array_equal(regions.targets[~is_object], 0)


def test_targets_lead_to_the_objects(image, proposals):
    regions = drawn(image, proposals)
    is_object = regions.labels > 0
    reached = boxes.moved(regions.boxes[is_object], regions.targets[is_object][:, None])[:, 0]
    wanted = OBJECTS[boxes.iou(regions.boxes[is_object], OBJECTS).argmax(1)]
    np.testing.assert_allclose(reached, wanted, atol=1e-3)


def test_mirrored_targets_lead_to_the_mirrored_objects(image, proposals):
    regions = sampling.mirrored(image, drawn(image, proposals))
    is_object = regions.labels > 0
    reached = boxes.moved(regions.boxes[is_object], regions.targets[is_object][:, None])[:, 0]
    there = boxes.mirrored(OBJECTS, image.width)
    np.testing.assert_allclose(reached, there[boxes.iou(regions.boxes[is_object], there).argmax(1)], atol=1e-3)


def test_the_objects_themselves_are_among_the_regions(image):
    regions = drawn(image, np.zeros([0, 4], np.float32))
    assert regions.weights.tolist() == [1] * 3 + [0] * 61
    np.testing.assert_array_equal(regions.boxes[:3], OBJECTS)
    np.testing.assert_array_equal(regions.labels[:4], [5, 8, 10, 0])
    np.testing.assert_array_equal(regions.targets, 0)


def test_difficult_objects_are_neither_learned_nor_background(image):
    regions = drawn(image, np.stack([HARD, HARD - 3]))
    assert regions.weights.sum() == 3
    assert 3 not in regions.labels


def test_draws_are_functions_of_the_seed_and_without_repetition(image, proposals):
    first, again, other = (drawn(image, proposals, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.boxes, again.boxes)
    assert not np.array_equal(first.boxes, other.boxes)
    assert len(np.unique(first.boxes, axis=0)) == 64


def test_an_image_with_difficult_objects_alone_cannot_be_trained_on(image):
    assert sampling.can_train(image)
    keep = image.difficult
    only = Annotated(image.path, 250, 150, image.boxes[keep], image.classes[keep], image.difficult[keep])
    assert not sampling.can_train(only)
