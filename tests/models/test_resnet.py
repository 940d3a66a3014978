import collections
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from lci_tf import models


@pytest.fixture(scope="module")
def model():
    return models.classifier("resnet34", classes=1000, crop_size=64)


def test_convolutions_are_those_of_he_et_al(model):
    found = collections.Counter(
        (tuple(layer.kernel.shape), layer.strides[0])
        for layer in model.get_layer("features").layers
        if isinstance(layer, tf.keras.layers.Conv2D)
    )
    # Table 1 of "Deep Residual Learning": 3, 4, 6 and 3 blocks of two convolutions; the first block of all stages but
    # the first halves the map, and has a projection (option B).
    expected = collections.Counter({((7, 7, 3, 64), 2): 1})
    before = 64
    for filters, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        expected[(3, 3, filters, filters), 1] += 2 * blocks
        if filters != before:
            expected[(3, 3, filters, filters), 1] -= 1
            expected[(3, 3, before, filters), 2] += 1
            expected[(1, 1, before, filters), 2] += 1
        before = filters
    assert found == expected
    assert sum(found.values()) == 36


def test_parameters(model):
    # The figure that everybody's ResNet-34 has.
    assert sum(np.prod(v.shape) for v in model.trainable_weights) == 21_797_672


def test_maps_are_the_stages(model):
    maps = [model.output[f"conv{i}"].shape[1:] for i in range(1, 6)]
    assert maps == [(32, 32, 64), (16, 16, 64), (8, 8, 128), (4, 4, 256), (2, 2, 512)]


def test_names_are_the_papers(model):
    names = [layer.name for layer in model.get_layer("features").layers]
    assert names[0] == "images"
    assert names[-1] == "conv5_block3_out"
    assert not [name for name in names if "stack" in name]


@pytest.mark.slow
def test_importing_keras_cv_prints_nothing():
    program = (
        "import lci_tf; from lci_tf import models; models.classifier('resnet34', classes=2, crop_size=32, width=0.1)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
