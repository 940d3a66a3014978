import pathlib

import numpy as np
import pytest

from lci_tf.evaluation.feature_file import FeatureFile, read_ahead, row_blocks
from lci_tf.evaluation.standardisation import Standardisation


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=[23, 7]).astype(np.float32)


@pytest.fixture
def features(rows, tmp_path):
    features = FeatureFile(tmp_path / "new")
    for start in range(0, 23, 5):
        features.append(rows[start : start + 5])
    return features


def test_reads_what_was_written(features, rows):
    features.append(rows[:0])
    assert features.shape == (23, 7) and len(features) == 23
    for part in (slice(0, 23), slice(4, 11), slice(20, None), slice(3, 3), slice(None, None)):
        np.testing.assert_array_equal(features[part], rows[part])


def test_rows_are_overwritten(features, rows):
    features[4:11] = -rows[4:11].astype(np.float64)
    np.testing.assert_array_equal(features[4:11], -rows[4:11])
    np.testing.assert_array_equal(features[:4], rows[:4])
    np.testing.assert_array_equal(features[11:], rows[11:])
    with pytest.raises(ValueError, match="2 rows instead of 3"):
        features[1:4] = rows[:2]
    with pytest.raises(ValueError, match="rows of 6 features instead of 7"):
        features.append(rows[:, :6])


def test_leaves_nothing_behind(features, tmp_path):
    assert list((tmp_path / "new").iterdir()) == []


def test_a_full_disk_is_reported_in_one_line(features, rows, refusal, monkeypatch):
    with pathlib.Path("/dev/full").open("wb", buffering=0) as full:
        monkeypatch.setattr(features, "_file", full)
        message = refusal(features.append, rows)
        assert message.endswith("the features of 46 images cannot be stored there (No space left on device)")


def test_statistics_of_a_file_are_those_of_an_array(features, rows, monkeypatch):
    expected = rows.mean(axis=0), rows.std(axis=0)
    for block_bytes in (2**20, 7 * 4 * 4):
        monkeypatch.setattr("lci_tf.evaluation.standardisation.BLOCK_BYTES", block_bytes)
        for statistics in (Standardisation.of(features), Standardisation.of(rows)):
            np.testing.assert_allclose(statistics.mean, expected[0], atol=1e-6)
            np.testing.assert_allclose(statistics.std, expected[1], rtol=1e-6)


@pytest.mark.parametrize("block_bytes, most, lengths", [(7 * 4 * 10, None, {7, 8}), (10**6, 6, {5, 6}), (1, None, {1})])
def test_blocks_are_of_one_length(rows, block_bytes, most, lengths):
    blocks = row_blocks(rows, block_bytes, most)
    assert {block.stop - block.start for block in blocks} == lengths
    np.testing.assert_array_equal(np.concatenate([rows[block] for block in blocks]), rows)
    assert row_blocks(rows[:0], block_bytes, most) == []


def test_reads_one_ahead():
    read = []

    def item(i):
        read.append(i)
        return i * i

    assert list(read_ahead(item, range(5))) == [(0, 0), (1, 1), (2, 4), (3, 9), (4, 16)]
    assert read == [0, 1, 2, 3, 4] and list(read_ahead(item, [])) == []


def test_what_goes_wrong_while_reading_is_told():
    with pytest.raises(ZeroDivisionError):
        list(read_ahead(lambda i: 1 / i, [2, 1, 0]))
