import numpy as np
import pytest
import tensorflow as tf

from lci_tf.pretraining.fill import FillMeasures, correlation


def test_correlation_is_numpys_averaged_over_channels():
    rng = np.random.default_rng(0)
    a = rng.normal(size=[50, 3])
    b = a + rng.normal(size=[50, 3])
    expected = np.mean([np.corrcoef(a[:, i], b[:, i])[0, 1] for i in range(3)])
    assert correlation(a, b) == pytest.approx(expected)
    assert correlation(a, np.ones_like(a)) == 0


def inpainter(paint):
    """An F that is a function of what it sees."""
    return type("F", (tf.Module,), {"__call__": lambda self, patches, training: paint(patches)})()


def border_mean(mask):
    def paint(patches):
        mean = tf.reduce_sum(patches * (1 - mask), [1, 2], keepdims=True) / tf.reduce_sum(1 - mask)
        return tf.broadcast_to(mean, tf.shape(patches))

    return paint


def measured(learner, batch_for, paint):
    learner.inpainter = inpainter(paint)
    return FillMeasures(lambda: [batch_for(learner, step) for step in range(4)])(learner, 0)


def test_a_fill_of_the_surroundings_colour_correlates_with_it_and_one_that_never_changes_does_not(
    tiny_learner, batch_for
):
    learner = tiny_learner()
    taking_after = measured(learner, batch_for, border_mean(learner.lci.mask))
    assert taking_after["fill/colour_correlation"] == pytest.approx(1, abs=1e-4)
    assert measured(learner, batch_for, lambda p: -border_mean(learner.lci.mask)(p))[
        "fill/colour_correlation"
    ] == pytest.approx(-1, abs=1e-4)
    assert measured(learner, batch_for, lambda patches: 0.3 * tf.ones_like(patches))["fill/colour_correlation"] == 0
    # Smooth images: their own centre takes after the border, but is not its equal.
    assert 0.2 < taking_after["fill/natural_correlation"] < 0.99


def test_what_d_gets_right_is_counted_for_natural_and_inpainted_pairs_apart(tiny_learner, batch_for):
    learner = tiny_learner()

    def bright_is_natural(pairs, training):
        return tf.reduce_mean(pairs, axis=[1, 2, 3])[:, tf.newaxis]

    class Bright(tf.Module):
        __call__ = staticmethod(bright_is_natural)

    learner.discriminator = Bright()
    dark = measured(learner, batch_for, lambda patches: -0.9 * tf.ones_like(patches))
    bright = measured(learner, batch_for, lambda patches: 0.9 * tf.ones_like(patches))
    assert (dark["fill/discriminator_inpainted"], bright["fill/discriminator_inpainted"]) == (1, 0)
    assert dark["fill/discriminator_natural"] == bright["fill/discriminator_natural"]


def test_a_frozen_inpainter_has_no_d(tiny_learner, batch_for):
    learner = tiny_learner(inpainter="somewhere")
    found = FillMeasures(lambda: [batch_for(learner)])(learner, 0)
    assert set(found) == {"fill/colour_correlation", "fill/natural_correlation"}
