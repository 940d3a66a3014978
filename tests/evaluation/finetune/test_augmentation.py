import numpy as np
import pytest
import tensorflow as tf

from lci_tf.evaluation.finetune import augmentation

HALF = np.full([2, augmentation.DRAWS], 0.5, np.float32)


@pytest.fixture
def x():
    return tf.random.stateless_uniform([2, 20, 20, 3], [0, 0], -0.6, 0.6)


def test_draws_of_one_half_change_nothing(x):
    np.testing.assert_allclose(augmentation.augment(x, HALF, 16), x[:, 2:18, 2:18], atol=1e-3)


def test_scale(x):
    # 20 pixels become 16: all of the image.
    smaller = augmentation.vary_scale(x, np.array([[0.0, 0.5, 0.5]] * 2, np.float32), 16)
    np.testing.assert_allclose(smaller, tf.image.resize(x, [16, 16]), atol=0.3)
    np.testing.assert_allclose(smaller[:, 0, 0], x[:, 0, 0], atol=1e-5)
    np.testing.assert_allclose(smaller[:, -1, -1], x[:, -1, -1], atol=1e-5)
    # 12.8 pixels in the upper right corner: the last is at 11.8.
    larger = augmentation.vary_scale(x, np.array([[1.0, 0.0, 1.0]] * 2, np.float32), 16)
    np.testing.assert_allclose(larger[:, 0, -1], x[:, 0, -1], atol=1e-5)
    np.testing.assert_allclose(larger[:, -1, -1], 0.2 * x[:, 11, -1] + 0.8 * x[:, 12, -1], atol=1e-4)


@pytest.mark.parametrize(("crop_size", "resize", "expected"), [(64, 96, 80), (64, 70, 70), (64, 64, 64), (32, 48, 40)])
def test_what_to_load(crop_size, resize, expected):
    assert augmentation.loaded_size(crop_size, resize) == expected


def colours(x, brightness=0.5, contrast=0.5, saturation=0.5, hue=0.5):
    return augmentation.vary_colours(x, tf.constant([[brightness, contrast, saturation, hue]] * 2)).numpy()


def test_contrast_and_brightness(x):
    np.testing.assert_allclose(colours(x, contrast=1.0), tf.image.adjust_contrast(x, 1.3), atol=2e-3)
    np.testing.assert_allclose(colours(x, brightness=0.0), x - 0.2, atol=2e-3)
    assert np.abs(colours(10 * x)).max() == 1


def test_saturation_and_hue(x):
    grey = tf.repeat(x[..., :1], 3, axis=-1)
    np.testing.assert_allclose(colours(grey, saturation=1.0, hue=0.0), grey, atol=2e-3)
    luma = tf.image.rgb_to_grayscale(x)
    np.testing.assert_allclose(tf.image.rgb_to_grayscale(colours(x, saturation=0.0, hue=1.0)), luma, atol=2e-3)
    np.testing.assert_allclose(colours(x, saturation=0.0), luma + 0.6 * (x - luma), atol=5e-3)
    turned = tf.image.rgb_to_yiq(colours(x, hue=1.0))
    before = tf.image.rgb_to_yiq(x)
    angle = tf.math.atan2(turned[..., 2], turned[..., 1]) - tf.math.atan2(before[..., 2], before[..., 1])
    np.testing.assert_allclose(np.median(angle % (2 * np.pi)), 0.05 * 2 * np.pi, atol=0.02)


def test_an_image_depends_only_on_its_own_draws(x):
    draws = tf.random.stateless_uniform([2, augmentation.DRAWS], [1, 1])
    both = augmentation.augment(x, draws, 16)
    np.testing.assert_allclose(both[1:], augmentation.augment(x[1:], draws[1:], 16), atol=1e-6)
    assert np.abs(both - augmentation.augment(x, draws[::-1], 16)).max() > 0.1
