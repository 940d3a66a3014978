"""Batches with their draws: shared out over workers and replicas, they are those of one."""

import numpy as np
import pytest
import tensorflow as tf

from lci_tf.data.input_report import InputReport
from lci_tf.data.pipeline import ALONE, Worker
from lci_tf.pretraining import batches


@pytest.fixture
def make(source, tiny_learner, tiny_plan):
    transforms, settings = tiny_learner().transforms, tiny_plan().settings

    def make(worker=ALONE, start_step=0):
        return batches.training_batches(source, settings, transforms, 5, InputReport(source), start_step, worker)

    return make


def taken(dataset, count=3):
    return [tf.nest.map_structure(np.asarray, batch) for batch in dataset.take(count)]


def assert_equal(one, other):
    tf.nest.map_structure(np.testing.assert_array_equal, one, other)


def test_workers_together_get_the_batches_of_a_single_one(make):
    shares = zip(*(taken(make(Worker(i, 2))) for i in range(2)), strict=True)
    for whole, parts in zip(taken(make()), shares, strict=True):
        assert set(whole["draws"]) == {"cut", "patch", "noise", "transform_0", "transform_1"}
        assert_equal(whole, tf.nest.map_structure(lambda *rows: np.concatenate(rows), *parts))


def test_a_step_does_not_depend_on_where_the_training_started(make):
    assert_equal(taken(make(), 3)[2], taken(make(start_step=2), 1)[0])


def test_replicas_take_turns_at_a_batch(make, two_replicas):
    parts = iter(batches.distributed(two_replicas, make))
    for whole in taken(make()):
        replicas = [two_replicas.experimental_local_results(value) for value in tf.nest.flatten(next(parts))]
        for expected, values in zip(tf.nest.flatten(whole), replicas, strict=True):
            np.testing.assert_array_equal(np.concatenate(values), expected)
