import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from lci_tf.evaluation.voc import trunk
from lci_tf.evaluation.voc.detection import detector
from lci_tf.evaluation.voc.detection.detector import Detector, MapGrid
from lci_tf.runs import trained

# --- Where the pixels of a map are ---


@pytest.mark.parametrize(("backbone", "expected"), [("alexnet", (16, 17, 19)), ("alexnet_small", (16, 14, 0))])
def test_pixels_of_the_map_are_centred_where_they_are_said_to_be(backbone, expected):
    """By a network that treats left and right, and up and down, alike: then mirroring commutes with it."""
    made = trunk.build(trained.random(backbone, 0.1))
    for name in ("conv1", "conv2", "conv3", "conv4", "conv5"):
        kernel = made.layers[name].kernel
        kernel.assign(20 * (kernel + kernel[::-1] + kernel[:, ::-1] + kernel[::-1, ::-1]))
    grid = MapGrid.of(made.convolutions)
    assert (grid.stride, grid.first, grid.spare) == expected
    side = 16 * 16 + 1  # pixel 0 and the last are both centres of a map's pixels
    images = tf.random.stateless_uniform([1, side, side, 3], [0, 0], -1, 1)
    found = Detector(made, 2)
    maps, mirrored = found.maps(images)[0], found.maps(images[:, ::-1, ::-1])[0]
    assert maps.shape[:2] == (17, 17)
    inside = slice(7, 10) if backbone == "alexnet_small" else slice(None)  # "same" fills up on one side only
    scale = np.abs(maps[inside, inside]).max()
    assert scale > 1e-3 and np.std(maps[inside, inside], axis=(0, 1)).max() > 0.01 * scale
    np.testing.assert_allclose(maps[inside, inside], mirrored[::-1, ::-1][inside, inside], atol=1e-4 * scale)


@pytest.mark.parametrize("backbone", ["alexnet", "alexnet_small", pytest.param("resnet34", marks=pytest.mark.slow)])
def test_maps_cover_images_of_any_size(backbone):
    found = Detector(trunk.build(trained.random(backbone, 0.1)), 2)
    stride = found._grid.stride
    assert stride == {"resnet34": 32}.get(backbone, 16)
    for height, width in ((1, 17), (64, 65), (100, 50)):
        maps = found.maps(tf.zeros([1, height, width, 3]))
        assert maps.shape[1:3] == (-(-(height - 1) // stride) + 1, -(-(width - 1) // stride) + 1)


# --- Pooling ---


def test_cells_of_a_box_hold_the_largest_value_within():
    # Maps that rise to the right and downwards: the largest sample of a cell is the last, at three quarters of it.
    across = np.tile(np.arange(20.0), [15, 1])
    down = np.tile(np.arange(15.0)[:, None], [1, 20])
    maps = np.stack([np.stack([across, down], -1), 100 + np.stack([across, down], -1)]).astype(np.float32)
    boxes = np.float32([[[48, 32, 191, 127], [16, 16, 40, 30]], [[80, 64, 175, 111], [0, 0, 303, 223]]])
    pooled = detector.pool(maps, boxes, stride=16, grid=3).numpy().reshape(2, 2, 3, 3, 2)
    for image in range(2):
        for number, (left, top, right, bottom) in enumerate(boxes[image]):
            cell_x, cell_y = (right - left + 1) / 3 / 16, (bottom - top + 1) / 3 / 16
            x = (left - 0.5) / 16 + cell_x * (np.arange(3) + 0.75)
            y = (top - 0.5) / 16 + cell_y * (np.arange(3) + 0.75)
            found = pooled[image, number] - 100 * image
            np.testing.assert_allclose(found[..., 0], np.tile(np.minimum(x, 19), [3, 1]), atol=1e-4)
            np.testing.assert_allclose(found[..., 1], np.tile(np.minimum(y, 14)[:, None], [1, 3]), atol=1e-4)


def test_boxes_at_the_edges_see_the_map_and_not_zeros():
    maps = np.full([1, 7, 5, 1], 3.0, np.float32)
    boxes = np.float32([[[0, 0, 3, 3], [60, 90, 64, 96], [0, 0, 64, 96]]])
    np.testing.assert_allclose(detector.pool(maps, boxes, stride=16, grid=6), 3.0, rtol=1e-6)


# --- Losses ---


def test_losses_are_those_of_scipy_and_keras():
    rng = np.random.default_rng(0)
    logits, moves = rng.normal(size=[12, 4]).astype(np.float32), 2 * rng.normal(size=[12, 3, 4]).astype(np.float32)
    labels, weights = rng.integers(0, 4, [2, 6]).astype(np.int32), np.float32([[1] * 6, [1] * 4 + [0] * 2])
    targets = rng.normal(size=[2, 6, 4]).astype(np.float32)
    found = detector.losses(logits, moves, labels, targets, weights)
    counts = weights.ravel() > 0
    of_class = -scipy.special.log_softmax(logits, axis=1)[np.arange(12), labels.ravel()]
    assert float(found["loss_classes"]) == pytest.approx(of_class[counts].mean(), rel=1e-5)
    is_object = counts & (labels.ravel() > 0)
    said = moves[is_object, labels.ravel()[is_object] - 1]
    huber = tf.keras.losses.Huber(reduction="sum")(targets.reshape(-1, 4)[is_object], said)  # the mean over four
    assert float(found["loss_boxes"]) == pytest.approx(4 * float(huber) / 10, rel=1e-5)
    assert float(found["loss"]) == pytest.approx(float(found["loss_classes"] + found["loss_boxes"]))


# --- The network ---


def test_new_layers_begin_as_the_protocol_says():
    found = Detector(trunk.build(trained.random("alexnet_small", 0.25)), 20, 0.01, 0.001, seed=3)
    assert np.std(found.scores.kernel) == pytest.approx(0.01, rel=0.05)
    assert np.std(found.moves.kernel) == pytest.approx(0.001, rel=0.05)
    assert found.scores.kernel.shape[1] == 21 and found.moves.kernel.shape[1] == 80
    assert not np.any(found.scores.bias) and not np.any(found.moves.bias)


def test_fixed_layers_are_not_among_what_is_trained():
    found = Detector(trunk.build(trained.random("alexnet_small", 0.1)), 2)
    every, but_one = found.trained(), found.trained(("conv1",))
    assert len(every) == 2 * (5 + 2 + 2) and len(but_one) == len(every) - 2
    first = {variable.ref() for variable in found.trunk.layers["conv1"].weights}
    assert first == {v.ref() for v in every} - {v.ref() for v in but_one}


def test_dropout_is_for_training_alone_and_drawn_anew_in_every_step():
    found = Detector(trunk.build(trained.random("alexnet_small", 0.1)), 2, dropout=0.5)
    maps = tf.random.stateless_uniform([1, 5, 5, 24], [0, 1])
    boxes = np.float32([[[0, 0, 60, 60]]])
    said = [found.regions(maps, boxes, step)[0].numpy() for step in (None, None, tf.constant(3), tf.constant(4))]
    np.testing.assert_array_equal(said[0], said[1])
    assert not np.allclose(said[0], said[2]) and not np.allclose(said[2], said[3])
