import dataclasses
import pathlib
import re

import numpy as np
import pytest
from PIL import Image

from lci_tf.data import cache, pipeline
from lci_tf.data.input_report import InputReport
from lci_tf.data.sets import folder
from lci_tf.data.source import PixelArray
from lci_tf.errors import InputError

PEAK = pathlib.Path("/proc/self/clear_refs")
CROPS = pipeline.Crops(crop_size=32, resize=40)


@pytest.fixture
def source(tmp_path):
    """Sizes that are shrunk, cut as they are, and enlarged; two classes; number 5 cannot be read."""
    rng = np.random.default_rng(0)
    for i, size in enumerate([(40, 40), (100, 140), (400, 300), (25, 30)] * 5):
        place = tmp_path / "ab"[i % 2]
        place.mkdir(exist_ok=True)
        image = Image.fromarray(rng.integers(0, 256, [5, 5, 3], np.uint8)).resize(size, Image.Resampling.BICUBIC)
        image.save(place / f"{i:02d}.jpg")
    found = folder.open_folder(tmp_path, "all")
    pathlib.Path(found.paths[5]).write_text("no image")
    return found


def test_cached_images_give_the_same_batches(source):
    cached = cache.in_memory(source, CROPS.resize)
    reports = [InputReport(s, max_bad_images=1) for s in (source, cached)]
    plain, quick = (
        pipeline.training_batches(s, CROPS, 6, seed=0, report=r).as_numpy_iterator()
        for s, r in zip((source, cached), reports, strict=True)
    )
    for _ in range(10):
        expected, batch = next(plain), next(quick)
        np.testing.assert_array_equal(batch["image"], expected["image"])
        np.testing.assert_array_equal(batch["label"], expected["label"])
    assert reports[1].unreadable.keys() == {5}
    assert source.paths[5] in reports[1].unreadable[5]


@pytest.mark.skipif(not PEAK.exists(), reason="the peak of memory is Linux's")
def test_what_is_cached_is_in_memory_once():
    pixels = np.broadcast_to(np.uint8(7), [4096, 128, 128, 3])  # which themselves take nothing
    source = PixelArray(name="grey", split="all", count=4096, pixels=pixels)
    cache.in_memory(dataclasses.replace(source, count=64), 128)  # what it takes whatever is cached
    PEAK.write_text("5")  # begins anew
    before = peak()
    cached = cache.in_memory(source, 128)
    assert cached.count == 4096
    assert peak() - before < 1.5 * pixels.size


def peak():
    """The most that this process has had in memory, in bytes."""
    return int(re.search(r"VmHWM:\s*(\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) * 1024


def test_a_set_that_is_too_large_is_not_cached(source):
    with pytest.raises(InputError, match=r"take more than 0\.0 GiB; train without --cache"):
        cache.in_memory(source, CROPS.resize, limit=10_000)
