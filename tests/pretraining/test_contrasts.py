"""What C has to tell apart, transformation by transformation."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from lci_tf.data.input_report import InputReport
from lci_tf.pretraining import contrasts
from lci_tf.transforms import Transformation

AS_THEY_ARE = {"margin": 0, "tilt": 0.0}  # then the cut takes all, and no pixel is computed


class Faint(Transformation):
    labels = ("faint", "fainter")

    def __call__(self, images, draws):
        return [images / 2, images / 4]


def made_by(learner, batch, choice=0.5):
    x = batch["image"]
    found = contrasts.contrasts(learner, x, batch["draws"], tf.fill([len(x)], choice))
    return [contrasts.Contrast(*(images.numpy() for images in contrast)) for contrast in found]


def test_natural_images_are_untouched(tiny_learner, batch_for):
    learner = tiny_learner(**AS_THEY_ARE)
    batch = batch_for(learner, size=32)
    rot, warp, _ = made_by(learner, batch)
    for contrast in (rot, warp):
        np.testing.assert_array_equal(contrast.natural, batch["image"])
    assert (np.abs(warp.transformed - batch["image"]).max(axis=(1, 2, 3)) > 0.1).all()


def test_each_image_is_rotated_once_according_to_its_draw(tiny_learner, batch_for):
    learner = tiny_learner(transforms=("rot",))
    batch = batch_for(learner)
    choice = np.array([0.0, 0.3, 0.34, 0.6, 0.67, 0.99, 0.5, 0.1], np.float32)
    ((natural, transformed),) = contrasts.contrasts(learner, batch["image"], batch["draws"], choice)
    for turns, image, turned in zip([1, 1, 2, 2, 3, 3, 2, 1], natural.numpy(), transformed.numpy(), strict=True):
        np.testing.assert_array_equal(turned, np.rot90(image, turns))


def test_inpainted_images_differ_from_natural_ones_only_within_the_patch(tiny_learner, batch_for):
    learner = tiny_learner()  # with margin and tilt
    batch = batch_for(learner)
    natural, transformed = made_by(learner, batch)[-1]
    patches = learner.inpaint(batch["image"], batch["draws"])
    white = patches._replace(inpainted=tf.ones_like(patches.inpainted), autoencoded=None)
    within = learner.transformed(tf.zeros_like(batch["image"]), white, batch["draws"])[-1].numpy() > 0
    assert 0.1 < within.mean() < 0.5
    np.testing.assert_array_equal(natural[~within], transformed[~within])
    assert (natural[within] != transformed[within]).mean() > 0.99


@pytest.mark.parametrize("patch_autoencoding", [True, False])
def test_inpainted_images_are_contrasted_with_autoencoded_ones_if_there_are_any(
    tiny_learner, batch_for, patch_autoencoding
):
    learner = tiny_learner(transforms=("lci",), patch_autoencoding=patch_autoencoding, **AS_THEY_ARE)
    batch = batch_for(learner, size=32)
    patches = learner.inpaint(batch["image"], batch["draws"], training=True)  # normalised by this batch, both kinds
    ((natural, transformed),) = made_by(learner, batch)
    own = patches.autoencoded if patch_autoencoding else patches.original
    for image, inpainted, (top, left), e, r in zip(
        natural, transformed, patches.places.numpy(), own, patches.inpainted, strict=True
    ):
        patch = (slice(top, top + 16), slice(left, left + 16))
        np.testing.assert_allclose(image[patch], e, atol=1e-6)
        np.testing.assert_allclose(inpainted[patch], r, atol=1e-6)


def test_one_of_the_users_own(tiny_learner, batch_for):
    learner = tiny_learner(transforms=(f"{__name__}:Faint",), **AS_THEY_ARE)
    batch = batch_for(learner, size=32)
    for choice, share in ((0.49, 2), (0.51, 4)):
        ((natural, transformed),) = made_by(learner, batch, choice)
        np.testing.assert_array_equal(natural / share, transformed)


def test_every_source_image_occurs_once_and_f_does_not_change(tiny_learner, tiny_plan, source):
    settings = tiny_plan(transforms=("lci",), **AS_THEY_ARE).settings
    trained = tiny_learner()
    learner = contrasts.learner_of(settings, trained)
    assert learner.classifier is None and learner.inpainter is trained.inpainter
    before = learner.inpainter.get_weights()

    def first_epoch(seed):
        batches = contrasts.in_batches(learner, source, settings, seed, InputReport(source))
        return [np.concatenate(stacks) for stacks in zip(*(c for (c,) in itertools.islice(batches, 8)), strict=True)]

    natural, transformed = first_epoch(seed=1)
    for one, other in zip(before, learner.inpainter.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert natural.shape == transformed.shape == (64, 32, 32, 3)
    assert len(np.unique(transformed.reshape([64, -1]), axis=0)) == 64
    for same, again in zip((natural, transformed), first_epoch(seed=1), strict=True):
        np.testing.assert_array_equal(same, again)
    assert (first_epoch(seed=2)[0] != natural).any()
