import dataclasses

import numpy as np
import pytest
from PIL import Image

from lci_tf.data.sets import folder
from lci_tf.data.source import PixelArray
from lci_tf.evaluation.crop_features import CropFeatures
from lci_tf.evaluation.feature_file import FeatureFile
from lci_tf.evaluation.neighbours import exact_search, retrieval


@pytest.fixture
def photos(tmp_path):
    """Of one colour each."""
    for i, name in enumerate(["cat/a.png", "cat/b.png", "dog/a.png", "dog/c.png"]):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full([40, 60, 3], 50 * i, np.uint8)).save(path)
    return folder.open_folder(tmp_path / "photos", split="all")


@pytest.mark.parametrize(
    "name", ["2", "dog/a.png", "photos/dog/a.png", "{folder}/dog/a.png", "{folder}/cat/../dog/a.png"]
)
def test_queries_by_name(photos, tmp_path, name):
    assert retrieval.choose_queries(photos, ["3", name.format(folder=tmp_path / "photos")]) == [3, 2]


def test_a_path_is_relative_to_the_current_folder(photos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path / "photos" / "dog")
    assert retrieval.choose_queries(photos, ["a.png"]) == [2]


def test_queries_that_do_not_exist(photos, refusal):
    expected = "no such image in folder all; give the path of one, the end of its path, or a number"
    for name in ("dog/b.png", "g/a.png"):
        assert refusal(retrieval.choose_queries, photos, [name]) == f"--queries={name}: {expected}"
    assert refusal(retrieval.choose_queries, photos, ["4"]) == "--queries=4: folder all has the images 0 to 3"
    assert refusal(retrieval.choose_queries, photos, ["a.png"]) == (
        f"--queries=a.png: 2 images of folder all have this name, such as {photos.paths[0]} and {photos.paths[2]}"
    )
    without_names = PixelArray(name="stl10", split="test", count=1, pixels=np.zeros([1, 8, 8, 3], np.uint8))
    assert retrieval.choose_queries(without_names, ["0"]) == [0]
    assert refusal(retrieval.choose_queries, without_names, ["a.png"]) == (
        "--queries=a.png: the images of stl10 test have no names; give numbers, counted from 0"
    )


def test_random_queries():
    numbers = np.array([1, 3, 4, 8, 9])
    drawn = [retrieval.random_queries(numbers, 3, seed) for seed in range(20)]
    assert all(len(set(d)) == 3 and set(d) <= set(numbers) and d == sorted(d) for d in drawn)
    assert drawn[0] == retrieval.random_queries(numbers, 3, 0) and len(set(map(tuple, drawn))) > 3


def test_more_than_there_are(photos, refusal):
    retrieval.check_enough(photos, 4, 4, 3)
    assert refusal(retrieval.check_enough, photos, 4, 5, 3) == "--retrieve=5: folder all has only 4 images"
    assert refusal(retrieval.check_enough, photos, 4, None, 4) == (
        "--neighbours=4: folder all is too small, as an image there has 3 neighbours"
    )


@pytest.fixture
def found(tmp_path):
    """Image 5 could not be read; 7 is a copy of 2."""
    x = np.random.default_rng(0).normal(size=[9, 12]).astype(np.float32)
    numbers = np.array([0, 1, 2, 3, 4, 6, 7, 8, 9])
    x[6] = x[2]
    features = FeatureFile(tmp_path)
    features.append(x)
    exact_search.normalise(features)
    return CropFeatures({"conv5": features}, numbers, numbers % 2)


def test_neighbours_have_the_numbers_of_the_source(found, refusal):
    features = found.layers["conv5"]
    got = retrieval.retrieve(found, features, [7, 2, 9], 3)
    assert got.numbers.shape == (3, 3) and got.numbers[0, 0] == 2 and got.numbers[1, 0] == 7
    np.testing.assert_allclose(got.similarity[:2, 0], 1, atol=1e-6)
    assert not (got.numbers == [[7], [2], [9]]).any()
    np.testing.assert_array_equal(got.is_right, got.numbers % 2 == [[1], [0], [1]])
    for labels in (None, np.full(9, -1)):
        assert retrieval.retrieve(dataclasses.replace(found, labels=labels), features, [7], 3).is_right is None
    for missing in (5, 10):
        assert refusal(retrieval.retrieve, found, features, [2, missing], 3) == (
            f"--queries: image {missing} cannot be read, or does not exist"
        )


def test_a_row_is_the_query_and_then_the_neighbours(photos):
    """Told by their colours: image i is of grey level 50 i."""
    one = retrieval.Retrieved(np.array([[3, 0], [1, 2]]), np.ones([2, 2], np.float32), np.array([[1, 0], [0, 1]], bool))
    other = retrieval.Retrieved(np.array([[0, 1], [0, 1]]), np.ones([2, 2], np.float32), None)
    shown = retrieval.picture(photos, [2, 3], {"ours": one, "theirs": other})
    side, gap = 128, 4
    without = retrieval.picture(photos, [2, 3], {"theirs": other})  # has no frames, and so no legend
    legend, shown = shown[without.shape[0] :], shown[: without.shape[0]]
    framed = [colour for colour in (retrieval.RIGHT, retrieval.WRONG) if (legend == colour).all(axis=-1).any()]
    assert framed == [retrieval.RIGHT, retrieval.WRONG] and not len(legend) > side
    top = [shown.shape[0] - 2 * (side + gap) + row * (side + gap) for row in range(2)]
    left = [gap, *(gap + side + gap + 20 + gap + i * (side + gap) for i in range(2))]
    left += [left[-1] + side + gap + 20 + gap + i * (side + gap) for i in range(2)]
    middles = shown[np.array(top)[:, None] + side // 2, np.array(left) + side // 2, 0]
    np.testing.assert_array_equal(middles, [[100, 150, 0, 0, 50], [150, 50, 100, 0, 50]])
    corners = shown[np.array(top)[:, None], np.array(left)]
    np.testing.assert_array_equal(
        corners[:, 1:3], [[retrieval.RIGHT, retrieval.WRONG], [retrieval.WRONG, retrieval.RIGHT]]
    )
    np.testing.assert_array_equal(corners[..., [0, 3, 4], 0], middles[:, [0, 3, 4]])


def test_names_for_a_file(photos):
    found = retrieval.Retrieved(np.array([[3, 0]]), np.array([[0.5, 0.25]], np.float32), None)
    assert retrieval.described(photos, [2], {"ours": found}) == [{
        "query": photos.paths[2],
        "ours": [{"image": photos.paths[3], "similarity": 0.5}, {"image": photos.paths[0], "similarity": 0.25}],
    }]  # fmt: skip
