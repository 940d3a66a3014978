import numpy as np
import pytest
import tensorflow as tf

from lci_tf.data import pipeline
from lci_tf.data.crops import RandomViews, ScaledCrops
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import PixelArray
from lci_tf.imaging import images


def ramp(height, width):
    """Rising to the right by one grey level a pixel."""
    return tf.tile(tf.cast(tf.range(width), tf.uint8)[None, :, None], [height, 1, 3])


@pytest.mark.parametrize("where, slope", [(0.0, 2.0), (0.5, 1.0), (1.0, 2 / 3)])
def test_a_crop_shows_what_its_scale_says(where, slope):
    """Scales of 0.5, 1 and 1.5 of an image as it is: a crop of 20 shows 40, 20 and 13 of its pixels."""
    crop = images.crop_at_scale(ramp(60, 90), tf.constant([[0.5, 0.5, 0.0, where]]), 20, (0.5, 1.5))
    assert crop.shape == (1, 20, 20, 3) and crop.dtype == tf.uint8
    row = crop[0, 10, 2:-2, 0].numpy().astype(float)
    np.testing.assert_allclose(np.diff(row).mean(), slope, atol=0.07)
    np.testing.assert_allclose(row.mean(), 44.5, atol=1)  # the middle


def test_a_scale_is_of_the_short_side_if_there_is_one():
    view = tf.constant([[0.5, 0.5, 0.0, 0.0]])
    as_if_120 = images.crop_at_scale(ramp(60, 90), view, 20, (0.5, 1.5), short_side=120)
    np.testing.assert_array_equal(as_if_120, images.crop_at_scale(ramp(60, 90), view, 20, (1.0, 1.5)))


def test_where_the_crop_would_be_larger_than_the_image_the_short_side_is_shown():
    view = tf.constant([[0.0, 0.0, 0.0, 0.0]])
    crop = images.crop_at_scale(ramp(60, 90), view, 60, (0.5, 1.5))
    np.testing.assert_array_equal(crop[0], ramp(60, 90)[:, :60])


def test_views_are_mirrored_from_a_half_on():
    plain, mirrored = images.crop_at_scale(
        ramp(60, 90), tf.constant([[0.3, 0.6, 0.4, 0.2], [0.3, 0.6, 0.6, 0.2]]), 20, (0.5, 1.5)
    )
    np.testing.assert_array_equal(plain, mirrored[:, ::-1])


@pytest.fixture
def source():
    pixels = np.random.default_rng(0).integers(0, 256, [9, 40, 50, 3], np.uint8)
    labels = np.eye(9, 3, dtype=np.int8)
    return PixelArray(name="noise", split="all", count=9, pixels=pixels, labels=labels, label_kind="multi-label",
                      label_names=("a", "b", "c"))  # fmt: skip


def test_random_views_of_an_image_do_not_depend_on_its_place_in_a_chunk(source):
    crops, views = ScaledCrops(16, scales=(0.5, 2.0)), RandomViews(3, seed=4)
    drawn = views.of(tf.constant([5, 2, 5], tf.int64), crops)
    assert drawn.shape == (3, 3, 4)
    np.testing.assert_array_equal(drawn[0], drawn[2])
    assert np.abs(drawn[0] - drawn[1]).max() > 0.01
    assert np.abs(drawn - RandomViews(3, seed=5).of(tf.constant([5, 2, 5], tf.int64), crops)).max() > 0.01


def test_the_pipeline_makes_them_for_training_and_for_testing(source):
    crops, report = ScaledCrops(16, scales=(0.5, 2.0)), InputReport(source)
    batch = next(iter(pipeline.training_batches(source, crops, 6, 0, report)))
    again = next(iter(pipeline.training_batches(source, crops, 6, 0, report)))
    assert batch["image"].shape == (6, 16, 16, 3) and batch["label"].shape == (6, 3)
    np.testing.assert_array_equal(batch["image"], again["image"])
    views = RandomViews(2, seed=1)
    tested = list(pipeline.evaluation_batches(source, crops, 4, report, views))
    assert [len(b["image"]) for b in tested] == [4, 4, 1]
    number = int(tested[1]["index"][2])
    expected = images.scale(
        crops.cut(tf.constant(source.pixels[number]), views.of(tf.constant([number], tf.int64), crops)[0])
    )
    np.testing.assert_array_equal(tested[1]["image"][2], expected)
    assert not report.enlarged  # it is what these crops are for
