import numpy as np
import pytest
import tensorflow as tf

from lci_tf.models.pooling import grid_of, pool


def pooled_in_numpy(feature_map, grid):
    """Each pixel becomes grid × grid equal ones: then the bins hold whole pixels."""
    fine = feature_map.astype(np.float64).repeat(grid, axis=1).repeat(grid, axis=2)
    n, height, width, channels = fine.shape
    return fine.reshape(n, grid, height // grid, grid, width // grid, channels).mean(axis=(2, 4))


@pytest.mark.parametrize("size", [(8, 8), (6, 6), (13, 13), (5, 9), (4, 4)])
def test_pools_to_equal_parts(size):
    feature_map = np.random.default_rng(0).normal(size=[2, *size, 3]).astype(np.float32)
    np.testing.assert_allclose(pool(tf.constant(feature_map), 4), pooled_in_numpy(feature_map, 4), atol=1e-6)


def test_one_bin_is_the_mean():
    feature_map = np.random.default_rng(0).normal(size=[2, 5, 7, 3]).astype(np.float32)
    np.testing.assert_allclose(pool(tf.constant(feature_map), 1)[:, 0, 0], feature_map.mean(axis=(1, 2)), atol=1e-6)


def test_a_map_smaller_than_the_grid_is_not_pooled():
    feature_map = np.random.default_rng(0).normal(size=[2, 3, 2, 3]).astype(np.float32)
    np.testing.assert_allclose(pool(tf.constant(feature_map), 4), feature_map)


def test_half_precision_maps_do_not_overflow():
    pooled = pool(tf.fill([1, 64, 64, 1], tf.constant(1000, tf.float16)), 1)
    assert pooled.dtype == tf.float32
    np.testing.assert_allclose(pooled, 1000, rtol=1e-6)


def test_the_authors_grids():
    assert [grid_of(channels) for channels in (96, 256, 384, 384, 256)] == [10, 6, 5, 5, 6]
    assert grid_of(10**6) == 1
