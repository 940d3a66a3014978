import json

import pytest

import lci_tf
from lci_tf.runs import provenance

IMAGES = {"split": "train", "images": 3, "contents": "0123456789abcdef", "labels": "fedcba9876543210"}
PARTS = {"protocol": {"epochs": 3, "layers": ("a", "b")}, "seed": 0, "network": {"digest": "1234"},
         "data": {"dataset": "folder", "train": IMAGES, "validation": None}}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [{"seed": 1}, {"protocol": {"epochs": 3, "layers": ("a",)}}, {"data": {"train": {**IMAGES, "labels": "0"}}}],
)
def test_another_question_has_another_digest(change):
    asked, other = provenance.question(**PARTS), provenance.question(**{**PARTS, **change})
    assert provenance.digest(asked) != provenance.digest(other) and provenance.difference(asked, other)
    assert provenance.digest(asked) == provenance.digest(dict(reversed(asked.items())))


def test_a_question_comes_back_from_a_file_as_it_was():
    asked = provenance.question(**PARTS)
    again = json.loads(json.dumps(asked))
    assert provenance.difference(asked, again) is None and provenance.digest(asked) == provenance.digest(again)


def test_another_version_asks_another_question(monkeypatch):
    before = provenance.question(**PARTS)
    monkeypatch.setattr(lci_tf, "__version__", "99")
    now = provenance.question(**PARTS)
    assert provenance.digest(before) != provenance.digest(now)
    assert "with another lci_tf" in provenance.difference(before, now)


def test_the_location_of_a_network_does_not_matter():
    origin = {"run": "/a", "checkpoint": "/a/checkpoints/step-7", "step": 7, "digest": "1234"}
    moved = {**origin, "run": "/b", "checkpoint": "/b/checkpoints/step-7"}
    assert provenance.of_network(origin) == provenance.of_network(moved) == {"step": 7, "digest": "1234"}


def test_a_line_for_the_screen():
    assert provenance.line(provenance.question(**PARTS)) == (
        f"images train 01234567/fedcba98; weights 1234; lci_tf {lci_tf.__version__}"
    )
