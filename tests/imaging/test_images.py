import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from lci_tf.imaging import images

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
    corner = tf.function(lambda v: images.crop(image, v[tf.newaxis] * [1, 1, 0], 6, 8)[0, 0, 0])
    corners = np.array([corner(view) for view in views])
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


@pytest.mark.parametrize("height, width", [(96, 96), (300, 200), (50, 70), (64, 64)])
def test_no_edge_pixels_are_invented(height, width):
    """A slope goes on to the very edge of a crop, wherever the crop lies: nothing is repeated or filled in there.

    Only at the edge of the image itself is half a pixel missing, and only when the image is resampled.
    """
    slope = np.zeros([height, width, 3])
    slope += np.arange(height)[:, None, None] * 250 / height
    factor = max(min(1, 96 / min(height, width)), 64 / min(height, width))
    rise = 250 / height / factor
    for place in (0, 0.3, 0.5, 1):
        column = crop(slope.round().astype(np.uint8), (place, 0.5, 0), 64, 96)[:, 20, 0].astype(float)
        top = place * (height * factor - 64) if factor != 1 else min(int(place * (height - 63)), height - 64)
        expected = ((np.arange(64) + 0.5 + top) / factor - 0.5) * 250 / height
        expected = expected.clip(0, 250 * (height - 1) / height)
        np.testing.assert_allclose(column, expected, atol=0.51 + 0.26 * max(rise, 250 / height) + 0.5)


@pytest.mark.parametrize("side", [768, 769, 775, 1001])
@pytest.mark.parametrize("fraction", [2, 4, 8])
def test_a_jpeg_decoded_at_a_fraction_has_no_edge_of_its_own(side, fraction):
    """Where the side is no multiple of the fraction, libjpeg adds a row and a column of the encoder's padding."""
    # Stripes across the lower edge, darker in the last row alone: the padding repeats that row.
    image = np.full([side, side, 3], 160, np.uint8)
    image[-1] = 0
    decoded = images.pixels(jpeg(image), side // fraction).numpy().astype(int)
    assert decoded.shape == (side // fraction, side // fraction, 3)
    # A row that shows the last one shows `fraction` rows of the image, and is darkened by its share.
    darkest = 160 * (1 - 1 / fraction) if side % fraction == 0 else 160
    assert decoded.min() > darkest - 25


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
    np.testing.assert_array_equal(eager, compiled)
    np.testing.assert_array_equal(compiled, mapped)


def test_ten_views_are_centre_and_corners_and_their_mirror_images():
    image = noise(96, 96)
    views = images.crop(tf.constant(image), tf.constant(images.VIEWS["ten"]), 64, 96).numpy()
    expected = [image[16:80, 16:80], image[:64, :64], image[:64, 32:], image[32:, :64], image[32:, 32:]]
    np.testing.assert_array_equal(views, expected + [e[:, ::-1] for e in expected])
