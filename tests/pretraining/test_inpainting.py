"""What F is given, and what it makes of it."""

import numpy as np
import tensorflow as tf


def test_f_is_given_the_border_and_noise_and_nothing_else_of_a_patch(tiny_learner, batch_for, noise_seed):
    learner = tiny_learner(margin=0, noise_scale=0.5, border=2)
    batch = batch_for(learner, size=32)
    x, draws = batch["image"], batch["draws"]
    patches = learner.inpaint(x, draws, training=False)
    noise = tf.random.stateless_normal([8, 16, 16, 3], noise_seed).numpy()
    places = patches.places.numpy()
    erased = np.stack([image[r : r + 16, c : c + 16] for image, (r, c) in zip(x.numpy(), places, strict=True)])
    np.testing.assert_array_equal(patches.original, erased)
    erased[:, 2:-2, 2:-2] = 0.5 * noise[:, 2:-2, 2:-2]
    np.testing.assert_array_equal(patches.erased, erased)
    np.testing.assert_allclose(patches.inpainted, learner.inpainter(erased), atol=1e-6)
    np.testing.assert_allclose(patches.autoencoded, learner.inpainter(patches.original), atol=1e-6)

    other = x.numpy().copy()
    for image, (row, column) in zip(other, places, strict=True):
        image[row + 2 : row + 14, column + 2 : column + 14] *= -1
    again = learner.inpaint(tf.constant(other), draws, training=False)
    np.testing.assert_array_equal(again.inpainted, patches.inpainted)
    assert np.any(again.autoencoded != patches.autoencoded)
