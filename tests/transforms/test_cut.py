import math

import numpy as np
import pytest
import tensorflow as tf

from lci_tf.transforms.cut import cut

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=[40, 20, 20, 3]).astype(np.float32)
DRAWS = RNG.uniform(size=[40, 4]).astype(np.float32)
LEVEL = DRAWS * np.float32([1, 1, 0.5, 1]) + np.float32([0, 0, 0.5, 0])  # none of these is tilted
TILTED = DRAWS * np.float32([1, 1, 0.499, 1])


@pytest.mark.parametrize("tilt", [0, 0.07])
def test_untilted_cuts_are_slices(everywhere, tilt):
    result = everywhere(lambda x, d: cut(x, d, 12, tilt), IMAGES, LEVEL)
    for image, (row, column), piece in zip(IMAGES, (LEVEL[:, :2] * 9).astype(int), result, strict=True):
        np.testing.assert_array_equal(piece, image[row : row + 12, column : column + 12])


def test_untilted_cuts_are_slices_at_the_papers_sizes_when_compiled():
    images = tf.constant(RNG.normal(size=[40, 160, 160, 1]).astype(np.float32))
    compiled = tf.function(lambda x, d: cut(x, d, 128, 0.07), jit_compile=True)
    np.testing.assert_array_equal(compiled(images, LEVEL), cut(images, LEVEL, 128, 0))


@pytest.mark.parametrize("tilt", [0, 0.07])
def test_all_places_are_equally_likely(tilt):
    """Of an image that shows its own coordinates."""
    draws = np.full([9 * 50, 4], 0.75, np.float32)
    draws[:, 0] = np.linspace(0, 1, len(draws), endpoint=False)
    draws[:, 1] = draws[::-1, 0]
    rows, columns = np.meshgrid(np.arange(20), np.arange(20), indexing="ij")
    images = np.stack([rows, columns], axis=-1)[np.newaxis].repeat(len(draws), axis=0).astype(np.float32)
    corners = cut(tf.constant(images), draws, 12, tilt).numpy()[:, 0, 0].astype(int)
    for axis in range(2):
        np.testing.assert_allclose(np.bincount(corners[:, axis]), 50, atol=1)
        assert corners[:, axis].max() == 8


def coordinates(draws, size, crop_size, tilt):
    """Where a cut looks, as float64 [n, crop, crop, 2]: of an image so planar that looking it up is exact."""
    rows, columns = np.meshgrid(np.arange(size), np.arange(size), indexing="ij")
    images = np.stack([rows, columns], axis=-1)[np.newaxis].repeat(len(draws), axis=0).astype(np.float32)
    return cut(tf.constant(images), draws, crop_size, tilt).numpy().astype(np.float64)


def test_tilted_cuts_are_turned_squares_inside_the_image(everywhere):
    size, crop_size, tilt = 80, 64, 0.07
    points = coordinates(TILTED, size, crop_size, tilt)
    right, down = points[:, 0, -1] - points[:, 0, 0], points[:, -1, 0] - points[:, 0, 0]
    np.testing.assert_allclose(np.linalg.norm([right, down], axis=-1), crop_size - 1, rtol=1e-5)
    np.testing.assert_allclose((right * down).sum(axis=-1), 0, atol=1e-2)
    angle = np.arctan2(-right[:, 0], right[:, 1])
    np.testing.assert_allclose(angle, (2 * TILTED[:, 3] - 1) * tilt * math.pi, atol=1e-5)
    # Inside with all of each pixel, not with its middle only; at the edge for a draw near 0 or 1.
    assert points.min() > 0 and points.max() < size - 1
    reach = crop_size / 2 * (np.cos(angle) + np.abs(np.sin(angle)))
    expected = reach[:, None] + TILTED[:, :2] * (size - 2 * reach[:, None]) - 0.5
    np.testing.assert_allclose(points.mean(axis=(1, 2)), expected, atol=1e-3)
    everywhere(lambda x, d: cut(x, d, 12, tilt), IMAGES, TILTED, atol=1e-4)


def test_without_room_to_turn_the_cut_is_centred_and_clamped():
    points = coordinates(TILTED, 64, 64, 0.25)
    clamped = (points == 0) | (points == 63)
    assert clamped.any()
    np.testing.assert_allclose(points[:, 31:33, 31:33].mean(axis=(1, 2)), 31.5, atol=1e-4)


def test_half_are_tilted():
    draws = RNG.uniform(size=[1000, 4]).astype(np.float32)
    points = coordinates(draws, 14, 8, 0.07)
    is_tilted = (points != np.round(points)).any(axis=(1, 2, 3))
    np.testing.assert_array_equal(is_tilted, draws[:, 2] < 0.5)


def test_without_margin_or_tilt_nothing_happens():
    images = tf.constant(IMAGES)
    assert cut(images, DRAWS, 20, 0) is images


@pytest.mark.parametrize("tilt", [0, 0.07])
def test_the_gradient_is_the_adjoint(assert_adjoint, tilt):
    assert_adjoint(lambda x: cut(x, DRAWS, 12, tilt), IMAGES)
