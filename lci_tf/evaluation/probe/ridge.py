"""A linear classifier in closed form: ridge regression with targets +1 for the class and -1 for all others.

Labels are integers [n]; or, if images may have several, [n, c] of 0 and 1.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from lci_tf.evaluation import metrics
from lci_tf.evaluation.standardisation import Standardisation

# Candidates for the regulariser, divided by the number of features; largest first, as the first of equals is chosen.
PER_FEATURE = (10.0, 3.0, 1.0, 0.3, 0.1)


@dataclasses.dataclass(frozen=True)
class RidgeClassifier:
    """A fitted classifier. Scores are `standardisation(x) @ weights + bias`; it predicts the class with the largest.

    Attributes:
      classes: [c], the labels in the order of the scores.
      standardisation: statistics of the training images' features.
      weights: float32 [d, c].
      bias: float32 [c].
    """

    classes: np.ndarray
    standardisation: Standardisation
    weights: np.ndarray
    bias: np.ndarray

    def scores(self, x: np.ndarray) -> np.ndarray:
        """From features, float32 [n, d], to scores, float32 [n, c]."""
        return self.standardisation(x) @ self.weights + self.bias

    def predict(self, x: np.ndarray) -> np.ndarray:
        """From features, float32 [n, d], to labels [n]."""
        return self.classes[self.scores(x).argmax(axis=1)]

    def accuracy(self, x: np.ndarray, y: np.ndarray) -> float:
        """The share of images that it classifies correctly; for several labels per image, mean average precision."""
        if y.ndim == 2:
            return metrics.evaluate(self.scores(x), y).value
        return float(np.mean(self.predict(x) == y))


def fit(x: np.ndarray, y: np.ndarray, regulariser: float, channels: int | None = None) -> RidgeClassifier:
    """Minimises |scores - targets|² + regulariser · |weights|², summed over images, on standardised features.

    Args:
      x: features, float32 [n, d].
      y: labels, integers [n] or [n, c].
      regulariser: weight of the penalty.
      channels: number of channels, if the features are flattened maps; see `Standardisation.of`.
    """
    return _fit_each(x, y, (regulariser,), channels)[0]


def fit_best(
    x: np.ndarray,
    y: np.ndarray,
    seed: int = 0,
    per_feature: Sequence[float] = PER_FEATURE,
    images: np.ndarray | None = None,
    channels: int | None = None,
) -> tuple[RidgeClassifier, float]:
    """Chooses the regulariser with the best accuracy on a held-out fifth, and fits a classifier to all images.

    Args:
      x, y, channels: see `fit`.
      seed: random seed for the choice of the held-out images.
      per_feature: the candidates, as multiples of d.
      images: [n], the image that each row is from, if some have several rows, which are then held out together.

    Returns:
      The classifier and its regulariser.
    """
    strata = np.zeros(len(y)) if y.ndim == 2 else y
    if images is None:
        held_out = _stratified_fifth(strata, seed)
    else:
        _, first, of_row = np.unique(images, return_index=True, return_inverse=True)
        held_out = _stratified_fifth(strata[first], seed)[of_row]
    candidates = [x.shape[1] * each for each in per_feature]
    fitted = _fit_each(x[~held_out], y[~held_out], candidates, channels)
    x_held_out, y_held_out = x[held_out], y[held_out]
    best = candidates[int(np.argmax([classifier.accuracy(x_held_out, y_held_out) for classifier in fitted]))]
    return fit(x, y, best, channels), best


def ridge_accuracy(
    train_x: np.ndarray,
    train_y: np.ndarray,
    test_x: np.ndarray,
    test_y: np.ndarray,
    seed: int = 0,
    channels: int | None = None,
) -> float:
    """`RidgeClassifier.accuracy` on test images [m, d] of the classifier from `fit_best` on train images [n, d]."""
    classifier, _ = fit_best(train_x, train_y, seed, channels=channels)
    return classifier.accuracy(test_x, test_y)


def _stratified_fifth(y, seed) -> np.ndarray:
    """bool [n]: a random fifth of the images of each class."""
    order = np.random.default_rng(seed).permutation(len(y))
    by_class = order[np.argsort(y[order], kind="stable")]
    held_out = np.zeros(len(y), bool)
    held_out[by_class[::5]] = True
    return held_out


def _fit_each(x, y, regularisers, channels) -> list[RidgeClassifier]:
    """Fits a classifier for each regulariser, with the smaller of the two systems of equations, [n, n] or [d, d]."""
    standardisation = Standardisation.of(x, channels)
    x = standardisation(x)  # centred, so the bias is the mean of the targets
    classes = np.arange(y.shape[1]) if y.ndim == 2 else np.unique(y)
    present = y == 1 if y.ndim == 2 else classes == y[:, None]
    targets = np.where(present, np.float32(1), np.float32(-1))
    bias = targets.mean(axis=0)
    targets = targets - bias
    dual = x.shape[0] < x.shape[1]
    gram = x @ x.T if dual else x.T @ x
    right_side = targets if dual else x.T @ targets
    # One eigendecomposition could serve all of them, but takes about twice as long as five of these factorisations (500
    # to 2,000 equations in float64, two cores of an AMD EPYC, 2026-11-19).
    solutions = [_solve(gram, regulariser, right_side) for regulariser in regularisers]
    weights = [x.T @ solution if dual else solution for solution in solutions]
    return [RidgeClassifier(classes, standardisation, w, bias) for w in weights]


def _solve(gram, regulariser, right_side) -> np.ndarray:
    """(gram + regulariser · 1)⁻¹ right_side, computed in float64, as NumPy's Cholesky is no faster in float32."""
    system = gram.astype(np.float64)
    system[np.diag_indices_from(system)] += regulariser
    factor = np.linalg.cholesky(system)
    # NumPy has no solver for triangular systems, and its general one takes twice as long as the factorisation.
    return tf.linalg.cholesky_solve(factor, right_side.astype(np.float64)).numpy().astype(np.float32)
