"""A run that is trained as far as it needs to be: not at all."""

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from lci_tf import checkpoints, models, presets
from lci_tf.runs import Run

LABELS = ["identity", "rot90", "rot180", "rot270"]


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    run = Run(tmp_path_factory.mktemp("runs") / "one")
    settings = presets.resolve("stl10", {"crop_size": 32, "width": 0.1, "transforms": ("rot",)})
    run.begin({**vars(settings), "dataset": "stl10"})
    run.describe({"labels": LABELS, "parameters": {"C": 1}, "steps": 20, "seed": 3,
                  "data": {"name": "stl10", "split": "unlabelled", "images": 1234}})  # fmt: skip
    run.log(7, {"probe/conv1_ridge": 0.25, "probe/conv5_ridge": 0.5})
    tf.keras.utils.set_random_seed(5)
    classifier = models.classifier("alexnet_small", len(LABELS), 32, width=0.1)
    # As after a training: batch normalisation that has seen something, and scales that are not all one.
    for i, weight in enumerate(classifier.weights):
        if "_bn" in weight.name:
            weight.assign(tf.abs(weight + tf.random.stateless_normal(weight.shape, [1, i], stddev=0.2)) + 0.1)
    saver = checkpoints.Checkpoints(run, {"classifier": classifier})
    saver.restore_latest()
    saver.save(7)
    return run


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """Files of many sizes and formats."""
    folder, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    kinds = ["JPEG RGB", "PNG RGB", "BMP RGB", "GIF P", "JPEG L", "PNG RGBA", "JPEG CMYK"]
    sizes = [(32, 32), (48, 48), (20, 70), (131, 64), (300, 200), (33, 47), (64, 500)]
    for i, ((height, width), format) in enumerate(zip(sizes, kinds, strict=True)):
        kind, mode = format.split()
        for rotated in range(2):
            rough = Image.fromarray(rng.integers(0, 256, [6, 6, 3], np.uint8))
            pixels = np.asarray(rough.resize((width, height), Image.Resampling.BICUBIC))
            image = Image.fromarray(np.rot90(pixels) if rotated else pixels)
            image.convert(mode).save(folder / f"{i}_{rotated}.{kind.lower()}", kind)
    return folder
