"""Montages are looked at; here it is checked that every pixel stands where it should."""

import numpy as np
import pytest

from lci_tf.plotting import pictures
from lci_tf.pretraining import montages

GAP, CAPTION = 4, 22


def images(count, side, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, [count, side, side, 3]).astype(np.float32)


def cell(picture, row, column, side, top=CAPTION):
    """One tile of a montage, by the layout alone."""
    first, left = top + GAP + row * (side + GAP), GAP + column * (side + GAP)
    return picture[first : first + side, left : left + side]


def levels(image):
    return np.round((image.astype(np.float64) + 1) / 2 * 255)


def test_transformations_are_columns_and_source_images_rows():
    stacks = {"identity": images(5, 64), "rot90": images(5, 64, 1), "warp": images(5, 64, 2)}
    picture = montages.transformations(stacks, count=3)
    assert picture.dtype == np.uint8 and picture.shape == (CAPTION + 3 * 132 + 4, 3 * 132 + 4, 3)
    for column, stack in enumerate(stacks.values()):
        for row in range(3):
            tile = cell(picture, row, column, 128)
            for corner in ((0, 0), (0, 1), (1, 0), (1, 1)):  # every pixel became two by two
                np.testing.assert_array_equal(tile[corner[0] :: 2, corner[1] :: 2], levels(stack[row]))


def test_gaps_are_white_and_even():
    picture = montages.transformations({"a": -np.ones([2, 64, 64, 3]), "b": -np.ones([2, 64, 64, 3])})
    is_gap_column = (picture[CAPTION:] == 255).all(axis=(0, 2))
    is_gap_row = (picture[CAPTION:] == 255).all(axis=(1, 2))
    assert list(np.flatnonzero(is_gap_column)) == [*range(4), *range(132, 136), *range(264, 268)]
    np.testing.assert_array_equal(is_gap_row, is_gap_column)


@pytest.mark.parametrize("caption", ["rot90", "a transformation with a name that is far too long for it"])
def test_captions_are_centred_and_stay_above_their_column(caption):
    columns = {"": np.zeros([1, 96, 96, 3], np.uint8), caption: np.zeros([1, 96, 96, 3], np.uint8)}
    ink = np.flatnonzero((pictures.table(columns)[:CAPTION] < 200).any(axis=(0, 2)))
    left = GAP + 96 + GAP
    assert left - 1 <= ink.min() and ink.max() <= left + 96
    assert abs((ink.min() + ink.max()) / 2 - (left + 48)) < 3


def test_patches_leave_out_what_there_is_not():
    original, erased, inpainted = images(4, 48), 3 * images(4, 48, 1), images(4, 48, 2)
    with_all = montages.patches(original, erased, inpainted, original, count=2)
    assert with_all.shape[1] == 4 * 148 + 4
    without = montages.patches(original, erased, inpainted, None, count=2)
    assert without.shape[1] == 3 * 148 + 4
    # Noise beyond [-1, 1] is clipped, not wrapped around.
    np.testing.assert_array_equal(cell(without, 1, 1, 144)[::3, ::3], levels(np.clip(erased[1], -1, 1)))
    np.testing.assert_array_equal(cell(without, 1, 2, 144)[1::3, 2::3], levels(inpainted[1]))


def test_a_frame_is_thin_and_around_the_patch_only():
    places = np.array([[8, 4], [-6, 30]])
    picture = montages.lci_examples(np.ones([2, 64, 64, 3]), np.zeros([2, 64, 64, 3]), places, patch_size=40)
    for row, (top, left) in enumerate(places):
        np.testing.assert_array_equal(cell(picture, row, 0, 128), 255)
        np.testing.assert_array_equal(cell(picture, row, 1, 128), 128)
        expected = np.zeros([200, 200], bool)  # with room for what lies beyond the image
        top, left = 2 * top + 36, 2 * left + 36
        expected[top : top + 80, left : left + 80] = True
        expected[top + 1 : top + 79, left + 1 : left + 79] = False
        framed = (cell(picture, row, 2, 128) != 128).any(axis=-1)
        np.testing.assert_array_equal(framed, expected[36:164, 36:164])


def test_each_filter_has_its_own_range():
    kernel = np.random.default_rng(0).normal(size=[11, 11, 3, 20]) * np.geomspace(1e-6, 1e6, 20)
    picture = montages.filters(kernel, columns=8)
    assert picture.shape == (3 * 70 + 4, 8 * 70 + 4, 3)
    for i in range(20):
        tile = cell(picture, i // 8, i % 8, 66, top=0)[3::6, 3::6]
        assert (tile.min(), tile.max()) == (0, 255)
        one = kernel[..., i]
        np.testing.assert_allclose(tile, (one - one.min()) / np.ptp(one) * 255, atol=0.51)


def test_filters_that_are_constant_or_not_finite_are_drawn():
    kernel = np.ones([7, 7, 3, 3], np.float32)
    kernel[0, 0, 0, 1], kernel[..., 2] = np.inf, np.nan
    picture = montages.filters(kernel)
    assert (cell(picture, 0, 0, 63, top=0) == 128).all() and (cell(picture, 0, 2, 63, top=0) == 128).all()
    assert montages.transformations({"nan": np.full([1, 64, 64, 3], np.nan)}).shape == (CAPTION + 136, 136, 3)
