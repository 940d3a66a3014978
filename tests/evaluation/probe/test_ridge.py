import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier
from sklearn.preprocessing import StandardScaler

from lci_tf.evaluation.probe import ridge


def classes_in_noise(n, d, classes=5, distance=1.0, seed=0):
    """Classes that differ in a few directions, amid correlated features of all scales, as those of networks are."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    signal = distance * rng.normal(size=[classes, 6])[labels] + rng.normal(size=[n, 6])
    mixed = np.maximum(signal @ rng.normal(size=[6, d]) + rng.normal(size=[n, d]), 0)
    return (mixed * np.exp(rng.normal(size=d))).astype(np.float32), labels


def scores_by_scikit_learn(train_x, train_y, test_x, regulariser):
    scaler = StandardScaler().fit(train_x.astype(np.float64))
    theirs = RidgeClassifier(alpha=regulariser, solver="cholesky").fit(scaler.transform(train_x), train_y)
    return theirs.decision_function(scaler.transform(test_x))


@pytest.mark.parametrize("shape", [(300, 80), (80, 300), (100, 100)])
@pytest.mark.parametrize("regulariser", [1.0, 100.0])
def test_equals_scikit_learn(shape, regulariser):
    n, d = shape
    x, y = classes_in_noise(n + 50, d)
    x[:n, 3] = 7.0  # a channel that is dead in training, and so must not count in testing
    scores = ridge.fit(x[:n], y[:n], regulariser).scores(x[n:])
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, scores_by_scikit_learn(x[:n], y[:n], x[n:], regulariser), atol=1e-4)


def test_channels_of_maps_are_standardised_as_a_whole():
    x, y = classes_in_noise(150, 40)
    scale = np.sqrt(x[:100].var(axis=0).reshape([8, 5]).mean(axis=0))  # eight places, five channels
    theirs = RidgeClassifier(alpha=30.0, solver="cholesky").fit(x[:100] / np.tile(scale, 8), y[:100])
    scores = ridge.fit(x[:100], y[:100], 30.0, channels=5).scores(x[100:])
    np.testing.assert_allclose(scores, theirs.decision_function(x[100:] / np.tile(scale, 8)), atol=1e-4)


def test_stays_exact_where_features_are_far_from_zero_and_nearly_equal():
    x, y = classes_in_noise(200, 400, seed=2)
    x[:, 200:] = x[:, :200] * 1.001 + 50
    scores = ridge.fit(x, y, 0.3 * 400).scores(x)
    np.testing.assert_allclose(scores, scores_by_scikit_learn(x, y, x, 0.3 * 400), atol=1e-3)


def test_labels_need_not_begin_at_zero_or_be_all_there():
    x, y = classes_in_noise(300, 40, distance=4)
    shifted = np.array([2, 3, 11, 12, 40])[y]
    classifier = ridge.fit(x, shifted, 1.0)
    np.testing.assert_array_equal(classifier.predict(x), np.array([2, 3, 11, 12, 40])[ridge.fit(x, y, 1.0).predict(x)])
    assert classifier.accuracy(x, shifted) > 0.9


def test_the_regulariser_is_the_best_on_the_held_out_fifth():
    x, y = classes_in_noise(400, 300, distance=0.6)
    classifier, chosen = ridge.fit_best(x, y, seed=3)
    held_out = ridge._stratified_fifth(y, seed=3)
    candidates = [300 * per_feature for per_feature in ridge.PER_FEATURE]
    classes = np.unique(y)
    accuracies = [
        np.mean(classes[scores_by_scikit_learn(x[~held_out], y[~held_out], x[held_out], c).argmax(1)] == y[held_out])
        for c in candidates
    ]
    assert len(set(accuracies)) > 1, "the candidates must differ for this test to tell anything"
    assert chosen == candidates[int(np.argmax(accuracies))]
    np.testing.assert_allclose(classifier.weights, ridge.fit(x, y, chosen).weights)


def test_the_test_images_have_no_say():
    x, y = classes_in_noise(400, 100)
    wrong = (y[300:] + 1) % 5
    classifier, _ = ridge.fit_best(x[:300], y[:300])
    predicted = classifier.predict(x[300:])
    assert ridge.ridge_accuracy(x[:300], y[:300], x[300:], y[300:]) == np.mean(predicted == y[300:])
    assert ridge.ridge_accuracy(x[:300], y[:300], x[300:], wrong) == np.mean(predicted == wrong)


def test_the_held_out_fifth_is_stratified_and_seeded():
    y = np.repeat([0, 1, 2], [100, 50, 10])
    held_out = ridge._stratified_fifth(y, seed=0)
    np.testing.assert_array_equal(np.bincount(y[held_out]), [20, 10, 2])
    np.testing.assert_array_equal(held_out, ridge._stratified_fifth(y, seed=0))
    assert (held_out != ridge._stratified_fifth(y, seed=1)).any()


def test_rows_of_one_image_are_held_out_together():
    """Copies are no news: as many of each image, all choose as one would. Apart, each would find its copy again."""
    x, y = classes_in_noise(200, 300, distance=0.3)
    x_twice, y_twice, images = np.tile(x, [2, 1]), np.tile(y, 2), np.tile(np.arange(200), 2)
    doubled = [2 * each for each in ridge.PER_FEATURE]  # twice the rows, so twice the regulariser is the same
    alone = ridge.fit_best(x, y, 1)[1]
    assert ridge.fit_best(x_twice, y_twice, 1, doubled, images)[1] == 2 * alone
    apart = ridge.fit_best(x_twice, y_twice, 1, doubled)[1]
    assert apart == x.shape[1] * min(doubled) < 2 * alone


def test_shuffled_labels_are_guessed():
    x, y = classes_in_noise(600, 200, classes=4, distance=3)
    guessed = ridge.ridge_accuracy(x[:300], np.random.default_rng(0).permutation(y[:300]), x[300:], y[300:])
    assert ridge.ridge_accuracy(x[:300], y[:300], x[300:], y[300:]) > 0.9
    assert guessed < 0.45


def test_several_labels_equal_scikit_learn():
    from sklearn.linear_model import Ridge

    x, y = classes_in_noise(200, 40)
    labels = np.stack([y == 0, y > 2, (y % 2) == 0], axis=1).astype(np.int8)
    scaler = StandardScaler().fit(x[:150])
    theirs = Ridge(alpha=50.0).fit(scaler.transform(x[:150]), 2.0 * labels[:150] - 1)
    scores = ridge.fit(x[:150], labels[:150], 50.0).scores(x[150:])
    np.testing.assert_allclose(scores, theirs.predict(scaler.transform(x[150:])), atol=1e-4)


def test_the_regulariser_for_several_labels_is_that_of_the_best_average_precision():
    from sklearn.metrics import average_precision_score

    x, y = classes_in_noise(300, 200, distance=0.3)
    labels = np.stack([y == 0, y > 2], axis=1).astype(np.int8)
    held_out = ridge._stratified_fifth(np.zeros(300), seed=1)
    assert held_out.sum() == 60
    candidates = [200 * per_feature for per_feature in ridge.PER_FEATURE]
    fitted = [ridge.fit(x[~held_out], labels[~held_out], candidate) for candidate in candidates]
    success = [average_precision_score(labels[held_out], each.scores(x[held_out])) for each in fitted]
    _, chosen = ridge.fit_best(x, labels, seed=1)
    assert len(set(success)) > 1 and chosen == candidates[int(np.argmax(success))]
