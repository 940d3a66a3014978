"""What a forward pass costs, in multiplications with additions, at the paper's sizes."""

import math

import numpy as np

from lci_tf import models


def cost(layer, positions=1):
    return positions * np.prod(layer.kernel.shape)


def test_classifier():
    model = models.classifier("alexnet_small", classes=6, crop_size=64)
    total = sum(cost(model.get_layer(name)) for name in ("fc1", "fc2", "fc3"))
    for name in ("conv1", "conv2", "conv3", "conv4", "conv5"):
        _, height, width, _ = model.output[name].shape
        total += cost(model.get_layer("features").get_layer(name), height * width)
    assert round(total / 1e6, 1) == 94.0


def test_inpainter():
    total = 0
    for layer in models.inpainter(48).layers:
        if hasattr(layer, "kernel"):
            # A kernel goes over what is smaller: the output of a convolution, the input of its transpose.
            total += cost(layer, min(math.prod(shape[1:3]) for shape in (layer.input.shape, layer.output.shape)))
    assert round(total / 1e6, 1) == 175.8


def test_patch_discriminator():
    total = 0
    for layer in models.patch_discriminator(48).layers:
        if hasattr(layer, "kernel"):
            total += cost(layer, math.prod(layer.output.shape[1:-1]))
    assert round(total / 1e6, 1) == 168.4
