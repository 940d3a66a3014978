import numpy as np
import tensorflow as tf

from lci_tf.transforms import patches

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=[5, 9, 9, 3]).astype(np.float32)
PATCHES = RNG.normal(size=[5, 4, 4, 3]).astype(np.float32)
PLACES = np.int32([[0, 0], [5, 5], [0, 5], [5, 0], [2, 3]])


def test_cropping_is_slicing(everywhere):
    result = everywhere(lambda x, p: patches.crop(x, p, 4), IMAGES, PLACES)
    for image, (row, column), patch in zip(IMAGES, PLACES, result, strict=True):
        np.testing.assert_array_equal(patch, image[row : row + 4, column : column + 4])


def test_pasting_is_slicing(everywhere):
    result = everywhere(patches.paste, IMAGES, PATCHES, PLACES)
    expected = IMAGES.copy()
    for image, (row, column), patch in zip(expected, PLACES, PATCHES, strict=True):
        image[row : row + 4, column : column + 4] = patch
    np.testing.assert_array_equal(result, expected)


def test_gradients_are_adjoints(assert_adjoint):
    zeros = tf.zeros_like(IMAGES)
    assert_adjoint(lambda x: patches.crop(x, PLACES, 4), IMAGES)
    assert_adjoint(lambda x: patches.paste(zeros, x, PLACES), PATCHES)
    assert_adjoint(lambda x: patches.paste(x, tf.zeros_like(PATCHES), PLACES), IMAGES)


def test_places_are_uniform_and_reach_both_ends(everywhere):
    draws = np.linspace(0, 1, 13 * 100, endpoint=False, dtype=np.float32)
    places = everywhere(lambda d: patches.random_places(d, 20, 8), np.stack([draws, draws[::-1]], axis=1))
    for column in places.T:
        np.testing.assert_allclose(np.bincount(column), 100, atol=1)
        assert (column.min(), column.max()) == (0, 12)


def test_the_largest_draw_stays_inside():
    largest = np.full([1, 2], np.nextafter(np.float32(1), np.float32(0)))
    for size in range(8, 200):
        assert patches.random_places(largest, size, 8).numpy().max() == size - 8
