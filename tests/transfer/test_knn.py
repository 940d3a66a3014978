import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from lci_tf.transfer import knn


def clouds(n, seed, classes=6, d=20):
    centres = np.random.default_rng(0).normal(size=[classes, d])
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    scales = np.exp(np.linspace(-2, 2, d))  # without standardising, the last feature would decide
    x = (centres[labels] + 1.5 * rng.normal(size=[n, d]) + 3) * scales
    x[:, 5] = 4.0  # a dead channel
    return x.astype(np.float32), labels


def scikit_learn(train_x, train_y, k):
    scaler = StandardScaler().fit(train_x)
    theirs = KNeighborsClassifier(k, metric="cosine", algorithm="brute").fit(scaler.transform(train_x), train_y)
    return lambda x: theirs.predict(scaler.transform(x)), lambda x: theirs.kneighbors(scaler.transform(x))[1]


@pytest.mark.parametrize("k", [1, 2, 10])
def test_equals_scikit_learn(k):
    (train_x, train_y), (test_x, test_y) = clouds(400, seed=1), clouds(300, seed=2)
    predict, kneighbors = scikit_learn(train_x, train_y, k)
    np.testing.assert_array_equal(knn.neighbours(train_x, test_x, k), kneighbors(test_x))
    np.testing.assert_array_equal(knn.vote(train_y[knn.neighbours(train_x, test_x, k)]), predict(test_x))
    accuracy = knn.knn_accuracy(train_x, train_y, test_x, test_y, k)
    assert accuracy == np.mean(predict(test_x) == test_y)
    assert 0.3 < accuracy < 0.99, "neither guessed nor trivial"


def test_blocks_change_nothing(monkeypatch):
    (train_x, _), (test_x, _) = clouds(400, seed=1), clouds(300, seed=2)
    at_once = knn.neighbours(train_x, test_x, 10)
    monkeypatch.setattr(knn, "_BLOCK_BYTES", 4 * 400 * 7)
    np.testing.assert_array_equal(knn.neighbours(train_x, test_x, 10), at_once)


def test_of_equals_the_smallest_class_wins():
    votes = np.array([[7, 3, 3, 7], [9, 9, 3, 0], [5, 4, 3, 9]])
    np.testing.assert_array_equal(knn.vote(votes), [3, 9, 3])


def test_fewer_images_than_neighbours():
    train_x, _ = clouds(5, seed=1)
    assert knn.neighbours(train_x, train_x, 10).shape == (5, 5)


def test_an_image_at_the_mean_has_neighbours():
    train_x, _ = clouds(50, seed=1)
    assert knn.neighbours(train_x, train_x.mean(axis=0, keepdims=True), 3).shape == (1, 3)
