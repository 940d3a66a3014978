"""F and D on the seams between tiles."""

import numpy as np
import pytest
import tensorflow as tf

TILES = {"transforms": ("tiles",), "margin": 0}


@pytest.fixture
def seam_learner(tiny_learner):
    return lambda **changes: tiny_learner(**TILES, **changes)


def test_the_gradients_are_those_of_the_losses_written_down_whole(seam_learner, batch_for, noise_seed):
    learner = seam_learner(noise_scale=0.5)
    batch = batch_for(learner, size=32)
    x, draws, start = batch["image"], batch["draws"], learner.get_weights()
    assert learner.players == ["discriminator", "inpainter"] and learner.classifier is None
    gradients, results = learner.gradients(x, draws)
    (tiles,) = learner.transforms
    band = np.broadcast_to(tiles.mask > 0, x.shape)
    for player in learner.players:
        learner.set_weights(start)  # a call of D moves its power iteration
        with tf.GradientTape() as tape:
            shuffled = tiles.permute(x, tiles.permutation(draws["transform_0"]))
            noise = 0.5 * tf.random.stateless_normal([8, 32, 32, 3], noise_seed)
            made = learner.inpainter(
                tf.concat([tf.where(band, noise, x), tf.where(band, noise, shuffled)], 0), training=True
            )
            composed = tf.where(np.tile(band, [2, 1, 1, 1]), made, tf.concat([x, shuffled], 0))
            seen = tf.concat([x, composed], 0)
            says = learner.discriminator(tf.concat([seen[0::2], seen[1::2]], axis=3), training=True)
            if player == "discriminator":
                loss = tf.reduce_mean(tf.nn.relu(1 - says[:4])) + tf.reduce_mean(tf.nn.relu(1 + says[4:]))
            else:
                beside = tf.reduce_mean(tf.boolean_mask((made[8:] - shuffled) ** 2, ~band))
                loss = -tf.reduce_mean(says[4:]) + 50 * beside + 50 * tf.reduce_mean((made[:8] - x) ** 2)
        alone = tape.gradient(loss, getattr(learner, player).trainable_variables)
        for value, other in zip(gradients[player], alone, strict=True):
            np.testing.assert_allclose(value, other, rtol=0, atol=1e-5 * np.abs(other).max() + 1e-12)
    assert set(results) == set(learner.reported())


def test_only_the_band_comes_from_f_which_does_not_see_what_it_hides(seam_learner, batch_for):
    learner = seam_learner()
    (tiles,) = learner.transforms
    batch = batch_for(learner, size=32)
    x = batch["image"]
    unpermuted, permuted = learner.inpaint(x, batch["draws"], training=False)
    outside = np.broadcast_to(tiles.mask == 0, x.shape)
    np.testing.assert_array_equal(unpermuted.images, x)
    for seams in (unpermuted, permuted):
        for made in (seams.erased, seams.filled):
            np.testing.assert_array_equal(made.numpy()[outside], seams.images.numpy()[outside])
        np.testing.assert_array_equal(seams.filled.numpy()[~outside], seams.made.numpy()[~outside])
    assert (permuted.images.numpy() != x.numpy()).any(axis=(1, 2, 3)).all()
    painted_over, _ = learner.inpaint(tf.where(outside, x, 9.0), batch["draws"], training=False)
    np.testing.assert_array_equal(painted_over.filled, unpermuted.filled)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_seams_are_trained_in_half_precision(seam_learner, batch_for, precision):
    learner = seam_learner(mixed_precision=precision)
    reported = tf.function(learner.train_step)(batch_for(learner, size=32))
    assert all(np.isfinite(value) for value in reported.values())


def test_f_learns_to_fill_seams(seam_learner, batch_for):
    """What F makes of images in place comes near them; the noise that it was given is far from them."""
    learner = seam_learner(width=0.2, inpainter_learning_rate=2e-3)
    (tiles,) = learner.transforms
    step = tf.function(learner.train_step)
    for i in range(60):
        batch = batch_for(learner, step=i, size=32)
        step(batch)
    unpermuted, permuted = learner.inpaint(batch["image"], batch["draws"])

    def roughness(images):
        """Mean difference of neighbours across the seams."""
        rows = np.arange(8, 32, 8)
        return np.abs(images.numpy()[:, rows] - images.numpy()[:, rows - 1]).mean()

    error = np.abs(unpermuted.filled - unpermuted.images)[:, tiles.mask[..., 0] > 0].mean()
    assert error < 0.5 * np.abs(unpermuted.erased - unpermuted.images)[:, tiles.mask[..., 0] > 0].mean()
    assert roughness(permuted.filled) < 0.6 * roughness(permuted.images)
