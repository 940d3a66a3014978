import itertools

import numpy as np
import pytest
from PIL import Image

from lci_tf.embedding import search
from lci_tf.plotting import pictures


@pytest.fixture
def folder(tmp_path):
    """Five images of falling similarity to [1, 0], one of which could not be read."""
    rows = np.array([[0, 1], [1, 0], [0, 0], [3, 3], [-1, 0]], np.float32)
    np.save(tmp_path / "embedding.npy", rows)
    paths = [tmp_path / f"{i}.png" for i in range(5)]
    for i, path in enumerate(paths):
        Image.fromarray(np.full([8, 12, 3], 40 * i, np.uint8)).save(path)
    (tmp_path / "paths.txt").write_text("".join(f"{path}\n" for path in paths))
    return tmp_path


def test_neighbours_by_the_cosine(folder, monkeypatch):
    monkeypatch.setattr(search, "_BLOCK", 2)  # the same, however the rows are cut up
    found = search.nearest(folder, np.array([[2, 0], [0, 5]], np.float32), k=3)
    names = [[path.rpartition("/")[2] for path in row] for row in found.paths]
    assert names == [["1.png", "3.png", "0.png"], ["0.png", "3.png", "1.png"]]
    np.testing.assert_allclose(found.similarity[0], [1, 0.5**0.5, 0], atol=1e-6)


def test_a_picture_of_queries_and_neighbours(folder):
    found = search.nearest(folder, np.array([[1, 0], [0, 1]], np.float32), k=2)
    shown = search.picture([str(folder / "4.png"), str(folder / "2.png")], found)
    rows = [[] for _ in range(2)]
    for row, middle in zip(rows, (shown.shape[0] - 200, shown.shape[0] - 68), strict=True):
        for grey, run in itertools.groupby(shown[middle, :, 0].tolist()):
            if grey != pictures.BACKGROUND and len(list(run)) == 128:
                row.append(grey)
    assert rows == [[160, 40, 120], [80, 0, 120]]  # the query, then the nearest first


def test_what_cannot_be_searched(folder, tmp_path, refusal):
    one = np.array([[1, 0]], np.float32)
    assert "there are fewer images" in refusal(search.nearest, folder, one, 5)
    assert "has no conv5.npy to search in; make it with --format=npy" in refusal(
        search.nearest, folder, one, 2, "conv5"
    )
    np.save(folder / "conv5.npy", np.zeros([5, 2, 2, 3], np.float32))
    assert "only vectors" in refusal(search.nearest, folder, one, 2, "conv5")
    assert refusal(search.read, "none.jpg") == "--search=none.jpg: cannot be read (No such file or directory)"
