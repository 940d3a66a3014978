import numpy as np
import pytest

from lci_tf.evaluation.voc.detection import boxes


@pytest.fixture
def some():
    rng = np.random.default_rng(0)
    corners = rng.integers(0, 50, [20, 2])
    return np.concatenate([corners, corners + rng.integers(0, 40, [20, 2])], 1).astype(np.float32)


def test_iou_counts_pixels(some):
    def pixels(box):
        mask = np.zeros([100, 100], bool)
        left, top, right, bottom = box.astype(int)
        mask[top : bottom + 1, left : right + 1] = True
        return mask

    expected = [[(pixels(a) & pixels(b)).sum() / (pixels(a) | pixels(b)).sum() for b in some[:8]] for a in some]
    np.testing.assert_allclose(boxes.iou(some, some[:8]), expected, rtol=1e-6)


def test_moving_proposals_by_their_targets_gives_the_objects(some):
    wanted = boxes.targets(some, some[::-1])
    np.testing.assert_allclose(boxes.moved(some, wanted[:, None])[:, 0], some[::-1], atol=1e-3)


def test_targets_by_hand():
    # The centre moves by a quarter of the width 20, the height is doubled.
    made = boxes.targets(np.array([[10.0, 10, 29, 19]]), np.array([[15.0, 5, 34, 24]]))
    np.testing.assert_allclose(made, [[0.25 / 0.1, 0, 0, np.log(2) / 0.2]], atol=1e-6)


def test_what_a_network_without_sense_asks_for_stays_finite(some):
    assert np.isfinite(boxes.moved(some, np.full([20, 3, 4], 1e4, np.float32))).all()


def test_mirroring_boxes_is_mirroring_their_pixels(some):
    image = np.arange(100)[None].repeat(100, 0)
    for box, other in zip(some.astype(int), boxes.mirrored(some, 100).astype(int), strict=True):
        here, there = (i[b[1] : b[3] + 1, b[0] : b[2] + 1] for i, b in ((image, box), (image[:, ::-1], other)))
        np.testing.assert_array_equal(here, there[:, ::-1])


def test_clipped_boxes_are_within_the_image():
    made = boxes.clipped(np.float32([[-5.0, 3, 120, 70]]), width=100, height=50)
    np.testing.assert_array_equal(made, [[0, 3, 99, 49]])
