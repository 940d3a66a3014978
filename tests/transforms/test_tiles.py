import numpy as np
import pytest
import tensorflow as tf

from lci_tf.transforms.tiles import Tiles

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=[5, 24, 24, 3]).astype(np.float32)
DRAWS = RNG.uniform(size=[5, 9]).astype(np.float32)


def in_order(permutations, images=IMAGES, tiles=3):
    """Tile by tile, in NumPy."""
    result, side = np.empty_like(images), images.shape[1] // tiles
    for image, permutation, into in zip(images, permutations, result, strict=True):
        for place, tile in enumerate(permutation):
            to, source = (np.s_[side * row : side * (row + 1), side * column : side * (column + 1)]
                          for row, column in (divmod(place, tiles), divmod(tile, tiles)))  # fmt: skip
            into[to] = image[source]
    return result


def test_tiles_are_moved_as_the_permutation_says(everywhere):
    tiles = Tiles(24, 3, seam=2)
    permutations = tiles.permutation(DRAWS).numpy()
    moved = everywhere(tiles.permute, IMAGES, permutations)
    np.testing.assert_array_equal(moved, in_order(permutations))
    for image, other in zip(IMAGES, moved, strict=True):
        np.testing.assert_array_equal(np.sort(image, axis=None), np.sort(other, axis=None))


def test_the_identity_gives_the_image_and_the_inverse_gives_it_back():
    tiles = Tiles(24, 3, seam=2)
    identity = np.tile(np.arange(9, dtype=np.int32), [5, 1])
    np.testing.assert_array_equal(tiles.permute(IMAGES, identity), IMAGES)
    permutations = tiles.permutation(DRAWS)
    inverse = np.argsort(permutations, axis=1).astype(np.int32)
    np.testing.assert_array_equal(tiles.permute(tiles.permute(IMAGES, permutations), inverse), IMAGES)


def test_permutations_are_bijections_all_are_drawn_and_none_is_the_identity(everywhere):
    tiles = Tiles(8, 2, seam=2)
    draws = RNG.uniform(size=[4000, 4]).astype(np.float32)
    permutations = everywhere(tiles.permutation, draws)
    np.testing.assert_array_equal(np.sort(permutations, axis=1), np.tile(np.arange(4), [4000, 1]))
    found, counts = np.unique(permutations, axis=0, return_counts=True)
    assert len(found) == 23 and [0, 1, 2, 3] not in found.tolist()
    assert sorted(counts)[0] > 100  # 4000 / 24 is 167


def test_the_mask_covers_the_bands_and_nothing_else():
    mask = Tiles(64, 4, seam=4).mask[..., 0]
    band = [p for seam in (16, 32, 48) for p in range(seam - 2, seam + 2)]
    expected = np.zeros([64, 64])
    expected[band], expected[:, band] = 1, 1
    np.testing.assert_array_equal(mask, expected)


@pytest.mark.parametrize("band", [0.0, 1e30, np.inf, np.nan])
def test_the_erased_band_says_nothing_of_the_image_and_the_rest_stays(everywhere, band):
    tiles = Tiles(24, 3, seam=4, noise_scale=0.5)
    inside = np.broadcast_to(tiles.mask > 0, IMAGES.shape)
    noise = RNG.normal(size=IMAGES.shape).astype(np.float32)
    erased = everywhere(tiles.erase_seams, np.where(inside, np.float32(band), IMAGES), noise)
    np.testing.assert_array_equal(erased, np.where(inside, np.float32(0.5) * noise, IMAGES))


def test_only_the_band_is_filled_and_only_it_has_a_gradient():
    tiles = Tiles(24, 3, seam=4)
    made = tf.constant(RNG.normal(size=IMAGES.shape).astype(np.float32))
    with tf.GradientTape() as tape:
        tape.watch(made)
        filled = tiles.fill_seams(IMAGES, made)
        loss = tf.reduce_sum(filled * IMAGES)
    np.testing.assert_array_equal(filled, made * tiles.mask + IMAGES * (1 - tiles.mask))
    np.testing.assert_array_equal(tape.gradient(loss, made), IMAGES * tiles.mask)
    np.testing.assert_array_equal(tiles.fill_seams(IMAGES, IMAGES), IMAGES)


@pytest.mark.parametrize("size, tiles, seam", [(30, 4, 2), (32, 4, 3)])
def test_what_has_no_whole_tiles_or_halves_is_refused(size, tiles, seam):
    with pytest.raises(ValueError, match="are not"):
        Tiles(size, tiles, seam)
