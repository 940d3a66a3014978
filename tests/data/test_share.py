import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from lci_tf.data import share
from lci_tf.data.source import PixelArray, StreamSource


def indexed(count):
    """Image i has the label i."""
    return PixelArray(name="numbered", split="all", count=count, label_kind="class", label_names=("many",),
                      pixels=np.zeros([count, 2, 2, 3], np.uint8), labels=np.arange(count))  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class Numbered(StreamSource):
    total: int

    def stream(self):
        return tf.data.Dataset.range(self.total).map(lambda i: {"image": tf.strings.as_string(i), "label": i})

    def why_unreadable(self, image):
        return f"is only the number {image.decode()}"


def stream(count, known=True):
    return Numbered(name="numbered", split="all", count=count if known else None, label_kind="class",
                    label_names=("many",), total=count)  # fmt: skip


SOURCES = {"indexed": indexed(1000), "stream": stream(1000), "stream of unknown length": stream(1000, known=False)}


def numbers(source):
    return np.array([int(row["label"]) for row in source.stream()])


@pytest.mark.parametrize("kind", SOURCES)
def test_shares_are_disjoint_and_together_everything(kind):
    fifth, rest = share.between(SOURCES[kind], 0.0, 0.2), share.between(SOURCES[kind], 0.2, 1.0)
    np.testing.assert_array_equal(np.sort(np.concatenate([numbers(fifth), numbers(rest)])), np.arange(1000))
    assert abs(len(numbers(fifth)) - 200) <= 2


def test_indexed_sources_and_streams_have_the_same_share():
    indexed, known, unknown = (numbers(share.between(source, 0.0, 0.2)) for source in SOURCES.values())
    np.testing.assert_array_equal(indexed, known)
    np.testing.assert_array_equal(indexed, unknown)


@pytest.mark.parametrize("kind", ["indexed", "stream"])
def test_counts_are_right(kind):
    for part in (share.between(SOURCES[kind], 0.2, 1.0), share.at_most(SOURCES[kind], 100)):
        assert part.count == len(numbers(part))


@pytest.mark.parametrize("classes", [2, 5, 10])
def test_every_class_has_its_share_in_any_order_of_the_images(classes):
    kept = numbers(share.between(SOURCES["indexed"], 0.0, 0.2))
    per_class = 200 / classes
    for label in (kept * classes // 1000, kept % classes):  # class by class; the classes in turn
        np.testing.assert_allclose(np.bincount(label, minlength=classes), per_class, atol=max(3, 0.15 * per_class))


def test_at_most():
    for kind in ("indexed", "stream"):
        kept = numbers(share.at_most(SOURCES[kind], 100))
        assert abs(len(kept) - 100) <= 2
        np.testing.assert_allclose(np.bincount(kept // 100, minlength=10), 10, atol=2)
        assert share.at_most(SOURCES[kind], 1000) is SOURCES[kind]
    np.testing.assert_array_equal(numbers(share.at_most(SOURCES["stream of unknown length"], 100)), np.arange(100))


@pytest.mark.parametrize("kind", SOURCES)
def test_messages_name_the_original_image(kind):
    part = share.between(SOURCES[kind], 0.0, 0.2)
    for index in (0, 7):
        assert part.where(index) == f"image {numbers(part)[index]} of numbered all"


def test_a_share_is_described_and_read_as_the_whole():
    for source in SOURCES.values():
        part = share.between(source, 0.0, 0.2)
        assert (part.name, part.split, part.label_kind, part.label_names) == ("numbered", "all", "class", ("many",))
        assert part.is_encoded == source.is_encoded
    assert share.between(SOURCES["stream"], 0.0, 0.2).why_unreadable(b"3") == "is only the number 3"
