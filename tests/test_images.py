import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from lci_tf import images

CENTRE = tf.constant(images.VIEWS["centre"])


def noise(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, [height, width, 3], np.uint8)


def smooth(height, width, seed=0):
    small = Image.fromarray(noise(12, 12, seed))
    return np.asarray(small.resize((width, height), Image.Resampling.BICUBIC))


def jpeg(image, **options):
    contents = io.BytesIO()
    Image.fromarray(image).save(contents, "JPEG", quality=95, **options)
    return tf.constant(contents.getvalue())


def crop(image, view, crop_size, resize):
    return images.crop(tf.constant(image), tf.constant([view], tf.float32), crop_size, resize)[0].numpy()


def test_a_crop_of_an_image_of_the_right_size_is_cut_bit_by_bit():
    image = noise(96, 120)
    np.testing.assert_array_equal(crop(image, (0, 0, 0), 64, 96), image[:64, :64])
    np.testing.assert_array_equal(crop(image, (1, 1, 0), 64, 96), image[32:, 56:])
    np.testing.assert_array_equal(crop(image, (0.5, 0.5, 0), 64, 96), image[16:80, 28:92])
    np.testing.assert_array_equal(crop(image, (0.5, 0.5, 1), 64, 96), image[16:80, 28:92][:, ::-1])


def test_every_place_is_equally_likely():
    image = np.zeros([8, 8, 3], np.uint8)
    image[..., 0], image[..., 1] = np.mgrid[:8, :8]
    views = tf.constant(np.random.default_rng(0).random([9000, 3]), tf.float32)
    corners = tf.map_fn(lambda v: images.crop(image, v[tf.newaxis] * [1, 1, 0], 6, 8)[0, 0, 0], views, tf.uint8).numpy()
    _, counts = np.unique(corners[:, :2], axis=0, return_counts=True)
    assert len(counts) == 9
    assert counts.min() > 900 and counts.max() < 1100


@pytest.mark.parametrize("height, width", [(200, 300), (193, 257), (500, 111)])
def test_shrinking_is_antialiased_as_in_tensorflow(height, width):
    """The whole image resized by TensorFlow, then cut, is the same as resizing what the crop shows."""
    image = noise(height, width)
    factor = 96 / min(height, width)
    size = [round(height * factor), round(width * factor)]
    resized = tf.image.resize(image, size, antialias=True).numpy()
    ours = crop(image, (0, 0, 0), 64, 96).astype(float)
    # The long side of a whole resized image is rounded to a pixel, ours is not.
    assert np.abs(ours - resized[:64, :64]).mean() < 2.5
    square = noise(240, 240)
    resized = tf.image.resize(square, [96, 96], antialias=True).numpy()
    np.testing.assert_allclose(crop(square, (0.5, 0.5, 0), 64, 96), resized[16:80, 16:80], atol=0.51)


@pytest.mark.parametrize("height, width", [(96, 96), (96, 128), (300, 300), (211, 347), (50, 40)])
@pytest.mark.parametrize("turns", [1, 2, 3])
def test_turning_before_and_after_gives_the_same_pixels(height, width, turns):
    image = smooth(height, width)
    before = crop(np.ascontiguousarray(np.rot90(image, turns)), (0.5, 0.5, 0), 64, 96)
    after = np.rot90(crop(image, (0.5, 0.5, 0), 64, 96), turns)
    difference = np.abs(before.astype(int) - after)
    # A grey level that falls between two may be rounded to either, when the sums are made in another order.
    assert difference.max() <= 1 and (difference > 0).mean() < 1e-3


@pytest.mark.parametrize("height, width", [(96, 96), (300, 200), (50, 70)])
def test_no_edge_pixels_are_invented(height, width):
    """A constant image stays constant, and a ramp reaches as far at the edges as it does in the image."""
    constant = np.full([height, width, 3], 200, np.uint8)
    ramp = np.repeat(np.linspace(0, 255, width)[np.newaxis, :, np.newaxis], height, axis=0).repeat(3, axis=2)
    for view in ((0, 0, 0), (1, 1, 0), (0.5, 0.5, 0)):
        assert (crop(constant, view, 64, 96) == 200).all()
    steps = np.diff(crop(ramp.round().astype(np.uint8), (0, 0, 0), 64, 96)[30, :, 0].astype(int))
    assert steps.min() >= 0 and steps[1:-1].max() <= 2 * 255 / min(64, width) + 1


def test_images_smaller_than_the_crop_are_enlarged_and_no_others():
    small, middling = smooth(50, 70), smooth(80, 90)
    assert crop(small, (0.5, 0.5, 0), 64, 96).shape == (64, 64, 3)
    assert images.is_smaller_than_crop(tf.constant(small), 64)
    np.testing.assert_array_equal(crop(middling, (0, 0, 0), 64, 96), middling[:64, :64])
    assert not images.is_smaller_than_crop(tf.constant(middling), 64)


def test_the_quick_way_gives_the_same_pixels():
    for seed in range(20):
        contents = jpeg(smooth(96, 110, seed))
        views = tf.random.stateless_uniform([3, 3], [seed, 0])
        thorough = images.crop(images.pixels(contents, 96), views, 64, 96)
        np.testing.assert_array_equal(images.crop_plain_jpeg(contents, views, 64, 96), thorough)


def exif(orientation):
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags


@pytest.mark.parametrize(
    "contents",
    [jpeg(smooth(200, 200)), jpeg(smooth(50, 50)), jpeg(smooth(96, 96), exif=exif(6)), tf.constant(b"no image")],
    ids=["too large", "too small", "turned by EXIF", "no image"],
)
def test_the_quick_way_refuses_all_else(contents):
    with pytest.raises(tf.errors.InvalidArgumentError):
        images.crop_plain_jpeg(contents, CENTRE, 64, 96)


def test_preprocessing_scales_to_plus_and_minus_one():
    image = noise(96, 96)
    image[16, 16], image[17, 16] = 0, 255
    crops = images.preprocess(tf.constant(image), CENTRE, 64, 96).numpy()
    assert crops.shape == (1, 64, 64, 3)
    assert crops[0, 0, 0, 0] == -1 and crops[0, 1, 0, 0] == 1
    np.testing.assert_array_equal(images.unscale(crops[0]), image[16:80, 16:80])


def test_preprocessing_is_the_same_eagerly_in_a_function_and_in_a_pipeline():
    contents, views = jpeg(smooth(200, 230)), tf.constant(images.VIEWS["ten"])
    eager = images.preprocess(contents, views, 64, 96)
    compiled = tf.function(images.preprocess)(contents, views, 64, 96)
    mapped = next(iter(tf.data.Dataset.from_tensors(contents).map(lambda c: images.preprocess(c, views, 64, 96))))
    # A graph may multiply by the inverse where eager code divides.
    np.testing.assert_allclose(eager, compiled, rtol=0, atol=2e-7)
    np.testing.assert_array_equal(compiled, mapped)


def test_ten_views_are_centre_and_corners_and_their_mirror_images():
    image = noise(96, 96)
    views = images.crop(tf.constant(image), tf.constant(images.VIEWS["ten"]), 64, 96).numpy()
    expected = [image[16:80, 16:80], image[:64, :64], image[:64, 32:], image[32:, :64], image[32:, 32:]]
    np.testing.assert_array_equal(views, expected + [e[:, ::-1] for e in expected])
