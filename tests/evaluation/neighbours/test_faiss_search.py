import sys

import numpy as np
import pytest

from lci_tf.evaluation.neighbours import exact_search, faiss_search


def test_missing_packages_are_reported_in_one_line(monkeypatch, refusal):
    monkeypatch.setitem(sys.modules, "faiss", None)
    message = refusal(faiss_search.require)
    assert message == "--faiss: faiss is not installed; pip install faiss-cpu, or leave the flag out"


@pytest.fixture
def x():
    pytest.importorskip("faiss")
    x = np.random.default_rng(0).normal(size=[200, 20]).astype(np.float32)
    exact_search.normalise(x)
    return x


def test_finds_the_same(x, monkeypatch):
    faiss_search.require()
    monkeypatch.setattr(faiss_search, "_BLOCK_BYTES", 4 * 20 * 30)
    for theirs, ours in (
        (faiss_search.nearest_others(x, 7), exact_search.nearest_others(x, 7)),
        (faiss_search.nearest(x[:150], x[150:], 7), exact_search.nearest(x[:150], x[150:], 7)),
    ):
        np.testing.assert_array_equal(theirs.numbers, ours.numbers)
        np.testing.assert_allclose(theirs.similarity, ours.similarity, atol=1e-6)


def test_an_image_is_left_out_but_not_its_copies(x):
    copies = np.repeat(x[:20], 6, axis=0)
    found = faiss_search.nearest_others(copies, 3)
    assert found.numbers.shape == (120, 3)
    assert (found.numbers != np.arange(120)[:, None]).all()
    np.testing.assert_array_equal(found.numbers // 6, np.arange(120)[:, None] // 6 * [1, 1, 1])
