import numpy as np
from PIL import Image

from lci_tf import data
from lci_tf.data.input_report import InputReport
from lci_tf.data.mean_image import mean_image, telling_patches
from lci_tf.data.pipeline import Crops


def test_the_mean_is_over_whole_readable_images(tmp_path, write_png):
    stored = [write_png(f"{i}.png", 12, 12) for i in range(5)]
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    source = data.open_source("folder", None, tmp_path)
    mean = mean_image(source, Crops(12, 12), InputReport(source, max_bad_images=1))
    np.testing.assert_allclose(mean, np.mean(stored, axis=0), atol=1e-3)


def smooth_noise(side, seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, [6, 6, 3], np.uint8)
    return np.asarray(Image.fromarray(pixels).resize([side, side], Image.Resampling.BICUBIC), np.float64)


def test_patches_that_tell_which_way_is_up():
    image = smooth_noise(24)

    def difference(top, left):
        patch = image[top : top + 8, left : left + 8]
        return min(np.square(patch - np.rot90(patch, k)).mean() for k in (1, 2, 3))

    left_over = {place: difference(*place) for place in np.ndindex(17, 17)}
    expected = []
    for _ in range(3):
        expected.append(max(left_over, key=left_over.get))
        left_over = {(row, column): d for (row, column), d in left_over.items()
                     if max(abs(row - expected[-1][0]), abs(column - expected[-1][1])) >= 8}  # fmt: skip
    assert telling_patches(image, 8, count=3) == expected


def test_no_more_patches_than_there_is_room_for():
    assert len(telling_patches(smooth_noise(20), 16)) == 1
    assert len(telling_patches(smooth_noise(48), 12)) == 4
