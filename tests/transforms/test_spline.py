import numpy as np
import pytest
import tensorflow as tf

from lci_tf.transforms import spline


def random_problem(dtype=np.float64):
    rng = np.random.default_rng(0)
    known = rng.uniform(0, 1, [2, 16, 2]).astype(dtype)
    values = rng.normal(size=[2, 16, 2]).astype(dtype)
    query = rng.uniform(-0.2, 1.2, [2, 50, 2]).astype(dtype)
    return known, values, query


def thin_plate_in_numpy(known, values, query):
    """The textbook system, one batch entry at a time."""

    def phi(a, b):
        r = np.linalg.norm(a[:, None] - b[None], axis=-1)
        return r**2 * np.log(np.maximum(r, 1e-5))

    results = []
    for p, v, q in zip(known, values, query, strict=True):
        n = len(p)
        plane = np.hstack([p, np.ones([n, 1])])
        system = np.block([[phi(p, p), plane], [plane.T, np.zeros([3, 3])]])
        weights = np.linalg.solve(system, np.vstack([v, np.zeros([3, v.shape[1]])]))
        results.append(phi(q, p) @ weights[:n] + np.hstack([q, np.ones([len(q), 1])]) @ weights[n:])
    return np.stack(results)


@pytest.mark.parametrize("interpolate", [spline.interpolate_spline, spline.solve_thin_plate])
def test_equals_the_textbook(interpolate):
    problem = random_problem()
    np.testing.assert_allclose(interpolate(*map(tf.constant, problem)), thin_plate_in_numpy(*problem), atol=1e-7)


@pytest.mark.parametrize("interpolate", [spline.interpolate_spline, spline.solve_thin_plate])
def test_goes_through_the_known_values(interpolate):
    known, values, _ = map(tf.constant, random_problem(np.float32))
    np.testing.assert_allclose(interpolate(known, values, known), values, atol=1e-3)


def test_ours_equals_tensorflow_addons():
    addons = pytest.importorskip("tensorflow_addons", reason="there is none for this Python")
    problem = [tf.constant(p) for p in random_problem()]
    theirs = addons.image.interpolate_spline(*problem, order=2)
    np.testing.assert_allclose(spline.solve_thin_plate(*problem), theirs, atol=1e-8)
