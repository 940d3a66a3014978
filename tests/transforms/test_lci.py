import numpy as np
import pytest
import tensorflow as tf

from lci_tf.transforms.lci import LimitedContextInpainting

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=[6, 20, 20, 3]).astype(np.float32)
DRAWS = RNG.uniform(size=[6, 2]).astype(np.float32)
NOISE = RNG.normal(size=[6, 12, 12, 3]).astype(np.float32)


def test_the_mask_is_one_in_the_centre():
    mask = LimitedContextInpainting(patch_size=12, border=2, noise_scale=1).mask
    assert mask.shape == (12, 12, 1) and mask.sum() == 8 * 8
    assert (mask[2:10, 2:10] == 1).all()


@pytest.mark.parametrize("noise_scale", [1.0, 0.1])
def test_erasing_is_the_papers_equation(everywhere, noise_scale):
    lci = LimitedContextInpainting(12, 3, noise_scale)
    patches = IMAGES[:, :12, :12]
    expected = patches * (1 - lci.mask) + np.float32(noise_scale) * NOISE * lci.mask
    np.testing.assert_array_equal(everywhere(lci.erase_centre, patches, NOISE), expected)


@pytest.mark.parametrize("centre", [0.0, 1e30, np.inf, np.nan])
def test_the_erased_centre_says_nothing_of_the_image(centre):
    lci = LimitedContextInpainting(12, 3, 1.0)
    patches = IMAGES[:, :12, :12].copy()
    erased = lci.erase_centre(patches, NOISE).numpy()
    patches[:, 3:9, 3:9] = centre
    np.testing.assert_array_equal(lci.erase_centre(patches, NOISE), erased)


def test_cropping_and_pasting_back_changes_nothing(everywhere):
    lci = LimitedContextInpainting(12, 2, 1.0)

    def there_and_back(images, draws):
        places = lci.place(draws, 20)
        return lci.paste(images, lci.crop(images, places), places)

    np.testing.assert_array_equal(everywhere(there_and_back, IMAGES, DRAWS), IMAGES)


def test_only_the_patch_is_pasted_and_only_it_has_a_gradient():
    lci = LimitedContextInpainting(12, 2, 1.0)
    places, patches = lci.place(DRAWS, 20), tf.constant(NOISE)
    with tf.GradientTape() as tape:
        tape.watch(patches)
        pasted = lci.paste(IMAGES, patches, places)
        loss = tf.reduce_sum(pasted * IMAGES)
    assert (pasted.numpy() != IMAGES).sum() == NOISE.size
    np.testing.assert_array_equal(lci.crop(pasted, places), NOISE)
    np.testing.assert_array_equal(tape.gradient(loss, patches), lci.crop(IMAGES, places))


def test_a_patch_as_large_as_the_image_has_one_place():
    assert not LimitedContextInpainting(20, 2, 1.0).place(DRAWS, 20).numpy().any()
