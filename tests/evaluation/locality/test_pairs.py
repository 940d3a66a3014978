import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from lci_tf.data.source import PixelArray, StreamSource
from lci_tf.evaluation.locality import pairs


def numbered(count):
    """Image i is of level i."""
    pixels = np.broadcast_to(np.arange(count, dtype=np.uint8)[:, np.newaxis, np.newaxis, np.newaxis], [count, 2, 2, 3])
    return PixelArray(name="numbered", split="all", count=count, pixels=pixels)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stream(StreamSource):
    read_so_far: list

    def stream(self):
        def numbers():
            for i in range(10_000):
                self.read_so_far.append(i)
                yield {"image": np.full([2, 2, 3], i % 256, np.uint8)}

        return tf.data.Dataset.from_generator(numbers, output_signature={"image": tf.TensorSpec([2, 2, 3], tf.uint8)})


def levels(source):
    return [int(row["image"][0, 0, 0]) for row in source.stream()]


def test_images_to_train_and_to_test_with_are_others():
    train, test = (levels(part) for part in pairs.split(numbered(200), limit=160, seed=0))
    assert (len(train), len(test)) == (120, 40)
    assert len({*train, *test}) == 160
    again = [levels(part) for part in pairs.split(numbered(200), limit=160, seed=0)]
    other = [levels(part) for part in pairs.split(numbered(200), limit=160, seed=1)]
    assert again == [train, test] and set(other[1]) != set(test)


def test_of_a_stream_no_more_is_read_than_is_wanted():
    source = Stream(name="endless", split="all", count=None, read_so_far=[])
    train, test = (levels(part) for part in pairs.split(source, limit=80, seed=0))
    assert sorted(train + test) == list(range(80))
    assert max(source.read_so_far) < 1000  # of 10,000: newer TensorFlow reads a few dozen ahead


def test_too_few_images_are_refused(refusal):
    assert refusal(pairs.split, numbered(20), 100, 0).startswith("--dataset: numbered all has 20 images; expected 64")


@pytest.mark.parametrize("count", [5, 8, 11])
def test_as_many_pairs_are_collected_as_there_are_sources(count):
    batches = ((tf.fill([4, 2, 2, 3], i), tf.fill([4, 2, 2, 3], -i)) for i in (0.25, 0.5, 0.75, 1.0))
    natural, transformed = pairs.collect(batches, count)
    np.testing.assert_array_equal(natural[:, 0, 0, 0], np.repeat([0.25, 0.5, 0.75], 4)[:count])
    np.testing.assert_array_equal(transformed, -natural)
    assert natural.dtype == np.float16


def test_memory_is_estimated_before_it_is_taken():
    train, test = (pairs.collect([[tf.zeros([n, 2, 2, 3])] * 2], n) for n in (3 * 75, 25))
    assert pairs.megabytes(100, 3, 2) * 2**20 == sum(stack.nbytes for part in (train, test) for stack in part)
