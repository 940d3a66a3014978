import numpy as np
import pytest
import tensorflow as tf

from lci_tf.transforms.lookup import bilinear_lookup


def random_problem():
    """Images that are not square, and points of which a good part lies outside."""
    rng = np.random.default_rng(0)
    images = rng.normal(size=[3, 9, 12, 4]).astype(np.float32)
    points = rng.uniform([-4, -4], [13, 16], [3, 7, 8, 2]).astype(np.float32)
    return images, points


def look_up_in_numpy(images, points):
    """One point at a time, from the definition: a weighted mean of the pixels less than one away."""
    result = np.empty([*points.shape[:3], images.shape[3]])
    last = np.array(images.shape[1:3]) - 1
    for i, image in enumerate(images.astype(np.float64)):
        for place in np.ndindex(*points.shape[1:3]):
            at = np.clip(points[(i, *place)].astype(np.float64), 0, last)
            rows, columns = (np.maximum(0, 1 - np.abs(np.arange(n + 1) - x)) for n, x in zip(last, at, strict=True))
            result[(i, *place)] = np.einsum("r,c,rck->k", rows, columns, image)
    return result


def test_equals_the_definition(everywhere):
    images, points = random_problem()
    np.testing.assert_allclose(
        everywhere(bilinear_lookup, images, points, atol=1e-6), look_up_in_numpy(images, points), atol=1e-5
    )


def test_is_exact_at_whole_numbers(everywhere):
    images, _ = random_problem()
    rows, columns = np.meshgrid(np.arange(9), np.arange(12), indexing="ij")
    points = np.stack([rows, columns], axis=-1)[np.newaxis].repeat(3, axis=0).astype(np.float32)
    np.testing.assert_array_equal(everywhere(bilinear_lookup, images, points), images)
    np.testing.assert_array_equal(bilinear_lookup(images, points[:, ::-1, ::-1]), images[:, ::-1, ::-1])


def test_points_outside_show_the_nearest_pixel():
    images, _ = random_problem()
    points = np.tile(np.float32([[-1e6, -0.5], [100, 5], [3, 1e6]]), [3, 1, 1, 1])
    expected = np.stack([images[:, 0, 0], images[:, 8, 5], images[:, 3, 11]], axis=1)
    np.testing.assert_array_equal(bilinear_lookup(images, points)[:, 0], expected)


def test_an_image_may_be_a_single_row():
    images, points = random_problem()
    row = images[:, :1]
    np.testing.assert_allclose(bilinear_lookup(row, points), look_up_in_numpy(row, points), atol=1e-5)


def test_the_gradient_is_the_adjoint(assert_adjoint):
    images, points = random_problem()
    assert_adjoint(lambda x: bilinear_lookup(x, points), images)


def test_the_gradient_equals_tensorflows_own():
    """Of the same lookup written as a matrix."""
    images, points = random_problem()
    units = tf.reshape(tf.eye(9 * 12), [1, 9, 12, 108])
    matrix = tf.reshape(look_up_in_numpy(units.numpy(), points[:1]), [56, 108])
    gradient = np.random.default_rng(1).normal(size=[1, 7, 8, 4]).astype(np.float32)
    x = tf.constant(images[:1])
    with tf.GradientTape() as tape:
        tape.watch(x)
        result = bilinear_lookup(x, points[:1])
    expected = tf.transpose(matrix) @ gradient.reshape([56, 4]).astype(np.float64)
    np.testing.assert_allclose(tf.reshape(tape.gradient(result, x, gradient), [108, 4]), expected, atol=1e-5)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_half_precision_is_rounded_once(dtype):
    images, points = random_problem()
    rounded = tf.cast(images, dtype)
    result = bilinear_lookup(rounded, points)
    assert result.dtype == dtype
    exact = bilinear_lookup(tf.cast(rounded, tf.float32), points)
    np.testing.assert_array_equal(result, tf.cast(exact, dtype))


def test_grey_levels_are_rounded():
    images, points = random_problem()
    grey = np.clip(images * 40 + 128, 0, 255).astype(np.uint8)
    result = bilinear_lookup(grey, points)
    assert result.dtype == tf.uint8
    np.testing.assert_array_equal(result, np.rint(bilinear_lookup(grey.astype(np.float32), points)))


def test_compiles():
    """With static shapes and nothing that runs on the host only, forwards and backwards."""
    images, points = map(tf.constant, random_problem())

    def both(images, points):
        with tf.GradientTape() as tape:
            tape.watch(images)
            result = bilinear_lookup(images, points)
            loss = tf.reduce_sum(result**2)
        return result, tape.gradient(loss, images)

    for compiled, plain in zip(tf.function(both, jit_compile=True)(images, points), both(images, points), strict=True):
        np.testing.assert_allclose(compiled, plain, atol=1e-5)
