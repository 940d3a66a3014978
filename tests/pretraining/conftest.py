"""A learner small enough to run in a second, and batches for it."""

import numpy as np
import pytest
import tensorflow as tf

from lci_tf.config import presets
from lci_tf.data.draws import NOISE, key
from lci_tf.data.source import PixelArray
from lci_tf.pretraining import batches
from lci_tf.pretraining.training import Plan, build

TINY = {"crop_size": 32, "margin": 8, "resize": 48, "patch_size": 16, "width": 0.05, "batch_size": 8}


@pytest.fixture
def source():
    """64 images of smooth noise."""
    rough = np.random.default_rng(0).integers(0, 256, [64, 6, 6, 3])
    return PixelArray(
        name="noise", split="train", count=64, pixels=tf.cast(tf.image.resize(rough, [56, 56]), tf.uint8).numpy()
    )


@pytest.fixture
def tiny_plan():
    def make(steps=4, seed=0, inpainter_only=False, inpainter=None, **settings):
        return Plan(
            settings=presets.resolve("stl10", {**TINY, **settings}),
            steps=steps,
            seed=seed,
            inpainter_only=inpainter_only,
            inpainter=inpainter,
        )

    return make


@pytest.fixture
def tiny_learner(tiny_plan):
    def make(**changes):
        return build(tiny_plan(**changes))

    return make


@pytest.fixture
def batch_for():
    """A batch of smooth random images for a learner, with the draws of some step."""

    def make(learner, step=0, n=8, size=40):
        rough = tf.random.stateless_uniform([n, 5, 5, 3], [1, step], -1.0, 1.0)
        return {
            "image": tf.image.resize(rough, [size, size], "bicubic"),
            "draws": batches.draw(0, tf.constant(step, tf.int64), n, learner.transforms),
        }

    return make


@pytest.fixture
def noise_seed():
    """The seed of `tf.random.stateless_normal` for the noise of `batch_for` at step 0."""
    return key(0, NOISE, tf.constant(0, tf.int64))
