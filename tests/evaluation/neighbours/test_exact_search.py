import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_distances
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from lci_tf.evaluation.feature_file import FeatureFile
from lci_tf.evaluation.neighbours import exact_search

KS = (1, 2, 3, 4, 7, 10)


def clouds(n, seed, classes=6, d=20):
    centres = np.random.default_rng(0).normal(size=[classes, d])
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    scales = np.exp(np.linspace(-2, 2, d))  # without standardising, the last feature would decide
    x = (centres[labels] + 1.5 * rng.normal(size=[n, d]) + 3) * scales
    x[:, 5] = 4.0  # a dead channel
    return x.astype(np.float32), labels


def clouds_with_copies(n=300, seed=3):
    """Every image twice or thrice, far apart from itself, with the same class."""
    x, y = clouds(n, seed)
    order = np.random.default_rng(seed).permutation(np.concatenate([np.arange(n), np.arange(n), np.arange(n // 3)]))
    return x[order], y[order]


def normalised(x):
    x = x.copy()
    exact_search.normalise(x)
    return x


def in_float64(x):
    return StandardScaler().fit(x).transform(x.astype(np.float64))


def scikit_learn_leaves_one_out(x, y, k):
    """Predictions for all images, by `kneighbors()` without images: all, and none its own neighbour."""
    theirs = KNeighborsClassifier(k, metric="cosine", algorithm="brute").fit(in_float64(x), y)
    return theirs.predict(None)


@pytest.fixture(params=["one block", "blocks"])
def blocks(request, monkeypatch):
    if request.param == "blocks":
        monkeypatch.setattr(exact_search, "_MOST_ROWS", 37)


@pytest.fixture(params=["array", "file"])
def stored(request, tmp_path):
    """Makes a copy of features, in memory or in a file."""

    def store(x):
        if request.param == "array":
            return x.copy()
        features = FeatureFile(tmp_path)
        features.append(x)
        return features

    return store


@pytest.mark.parametrize("k", [1, 2, 10])
def test_train_and_test_equal_scikit_learn(blocks, k):
    (train_x, train_y), (test_x, test_y) = clouds(400, seed=1), clouds(300, seed=2)
    scaler = StandardScaler().fit(train_x)
    theirs = KNeighborsClassifier(k, metric="cosine", algorithm="brute").fit(scaler.transform(train_x), train_y)
    accuracy = exact_search.knn_accuracy(train_x, train_y, test_x, test_y, k)
    assert accuracy == theirs.score(scaler.transform(test_x), test_y)
    assert 0.3 < accuracy < 0.99, "neither guessed nor trivial"


def test_leaving_one_out_equals_scikit_learn(blocks, stored):
    x, y = clouds(300, seed=4)
    features = stored(x)
    exact_search.normalise(features)
    found = exact_search.nearest_others(features, max(KS))
    accuracies = exact_search.accuracies(found, y, y, KS)
    for k in KS:
        theirs = scikit_learn_leaves_one_out(x, y, k)
        np.testing.assert_array_equal(exact_search.vote(y[found.numbers[:, :k]]), theirs)
        assert accuracies[k] == np.mean(theirs == y)
    assert 0.3 < accuracies[10] < 0.99 and accuracies[1] != accuracies[10]


def test_an_image_is_left_out_but_not_its_copies(blocks, stored):
    """Of which there are so many, and of one class, that whoever leaves them out loses."""
    x, y = clouds_with_copies()
    features = stored(x)
    exact_search.normalise(features)
    found = exact_search.nearest_others(features, max(KS))
    assert (found.numbers != np.arange(len(x))[:, None]).all()
    assert (x[found.numbers[:, 0]] == x).all()
    for k in KS:
        np.testing.assert_array_equal(exact_search.vote(y[found.numbers[:, :k]]), scikit_learn_leaves_one_out(x, y, k))
    assert exact_search.accuracies(found, y, y, [1]) == {1: 1.0}


def test_more_copies_than_neighbours(blocks):
    """Where the k-th neighbour is one of many copies, the first ones count."""
    x = clouds(40, seed=5)[0][np.random.default_rng(0).permutation(np.repeat(np.arange(40), 6))]
    distances = np.round(cosine_distances(in_float64(x)), 9)  # without the noise of float64: copies are equal
    np.fill_diagonal(distances, np.inf)
    expected = np.argsort(distances, axis=1, kind="stable")
    found = exact_search.nearest_others(normalised(x), max(KS))
    np.testing.assert_array_equal(found.numbers, expected[:, : max(KS)])
    np.testing.assert_allclose(found.similarity, 1 - np.take_along_axis(distances, found.numbers, 1), atol=1e-6)


def test_tied_votes_as_scikit_learn():
    """Two neighbours of different classes, each time: of equals the smallest class, not the nearest neighbour's."""
    x, _ = clouds(200, seed=6)
    y = np.random.default_rng(2).permutation(200) % 20
    found = exact_search.nearest_others(normalised(x), 4)
    tied = y[found.numbers[:, 0]] != y[found.numbers[:, 1]]
    assert tied.mean() > 0.8 and (y[found.numbers[:, 1]] < y[found.numbers[:, 0]])[tied].any()
    for k in (2, 4):
        np.testing.assert_array_equal(exact_search.vote(y[found.numbers[:, :k]]), scikit_learn_leaves_one_out(x, y, k))


def test_of_equals_the_smallest_class_wins():
    votes = np.array([[7, 3, 3, 7], [9, 9, 3, 0], [5, 4, 3, 9]])
    np.testing.assert_array_equal(exact_search.vote(votes), [3, 9, 3])


def test_leaving_out_by_number_is_leaving_one_out(blocks, stored):
    x, _ = clouds_with_copies(100)
    features = stored(x)
    exact_search.normalise(features)
    queries = np.array([5, 100, 232])
    found = exact_search.nearest(features, normalised(x)[queries], 8, leave_out=queries)
    np.testing.assert_array_equal(found.numbers, exact_search.nearest_others(features, 8).numbers[queries])


def test_blocks_change_nothing(monkeypatch):
    x = normalised(clouds(300, seed=1)[0])
    at_once = exact_search.nearest_others(x, 10), exact_search.nearest(x[:200], x[200:], 10)
    monkeypatch.setattr(exact_search, "_BLOCK_BYTES", 20 * 4 * 13)
    for one, other in zip(
        at_once, (exact_search.nearest_others(x, 10), exact_search.nearest(x[:200], x[200:], 10)), strict=True
    ):
        np.testing.assert_array_equal(one.numbers, other.numbers)
        np.testing.assert_allclose(one.similarity, other.similarity, atol=1e-6)


def test_all_others_are_neighbours(blocks):
    x = normalised(clouds(100, seed=1)[0])
    found = exact_search.nearest_others(x, 99)
    np.testing.assert_array_equal(np.sort(found.numbers, 1), [[j for j in range(100) if j != i] for i in range(100)])
    assert (np.diff(found.similarity) <= 0).all()


def test_fewer_images_than_neighbours(refusal):
    train_x, train_y = clouds(5, seed=1)
    assert exact_search.knn_accuracy(train_x, train_y, train_x, train_y, 10) == np.mean(
        train_y == exact_search.vote(train_y[None])[0]
    )
    exact_search.check_enough(4, 4, "folder val")
    message = refusal(exact_search.check_enough, 9, 4, "folder val")
    assert message == "--k=9: folder val is too small, as an image there has 4 neighbours"


def test_an_image_at_the_mean_has_neighbours():
    train_x, train_y = clouds(50, seed=1)
    assert exact_search.knn_accuracy(train_x, train_y, train_x.mean(axis=0, keepdims=True), train_y[:1], 3) in (
        0.0,
        1.0,
    )


def test_features_that_are_given_stay_as_they_are():
    train_x, train_y = clouds(50, seed=1)
    before = train_x.copy()
    exact_search.knn_accuracy(train_x, train_y, train_x, train_y)
    np.testing.assert_array_equal(train_x, before)
