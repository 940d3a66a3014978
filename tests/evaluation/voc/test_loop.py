import itertools
import signal

import numpy as np
import pytest
import tensorflow as tf

from lci_tf.evaluation.voc import loop
from lci_tf.runs import Run, preemption


class Walk:
    """Adds what comes to a number."""

    def __init__(self):
        self.place = tf.Variable(0.0)
        self.seen = []

    def batches(self, first):
        return iter(range(first, 10**6))

    def step(self, number):
        self.seen.append(number)
        self.place.assign_add(float(number))
        return {"loss": tf.constant(float(number))}

    def train(self, folder, iterations, **options):
        return loop.train(Run(folder), {"walk": tf.train.Checkpoint(place=self.place)}, self.batches, self.step,
                          iterations, batch_size=1, **options)  # fmt: skip


def test_it_goes_on_from_the_last_checkpoint_and_logs_means(tmp_path):
    walk = Walk()
    with pytest.raises(StopIteration):
        walk.batches = lambda first: itertools.islice(range(first, 100), 7)  # it ends in the middle of the eighth step
        walk.train(tmp_path, 20, checkpoint_every=5, log_every=5)
    again = Walk()
    assert again.train(tmp_path, 20, checkpoint_every=5, log_every=5) == 20
    assert again.seen == list(range(5, 20)) and float(again.place) == sum(range(20))
    records = Run(tmp_path).metrics()
    assert [r["step"] for r in records] == [5, 10, 15, 20]
    assert [r["loss"] for r in records] == [2, 7, 12, 17]
    assert list((tmp_path / "tensorboard").iterdir())


def test_what_a_check_finds_is_logged_at_its_step(tmp_path):
    walk = Walk()
    walk.train(tmp_path, 6, log_every=4, check=lambda step: {"validation": step / 10} if step % 3 == 0 else None)
    assert Run(tmp_path).metrics() == [{"step": 3, "validation": 0.3}, {"step": 4, "loss": 1.5},
                                       {"step": 6, "loss": 4.5, "validation": 0.6}]  # fmt: skip


def test_it_stops_when_it_is_enough(tmp_path):
    walk = Walk()
    assert walk.train(tmp_path, 20, is_enough=lambda step: step >= 7) == 7
    assert Walk().train(tmp_path, 20, is_enough=lambda step: step >= 7) == 7  # and is not begun again


def test_a_loss_that_is_no_number_ends_it(tmp_path, refusal):
    walk = Walk()
    walk.step = lambda number: {"loss": tf.constant(np.nan if number == 3 else 1.0)}
    assert "the loss is nan at iteration 5" in refusal(lambda: walk.train(tmp_path, 20, log_every=5))


def test_told_to_end_it_keeps_the_step_that_it_is_at(tmp_path):
    walk = Walk()
    plain = walk.step

    def step(number):
        if number == 6:
            signal.raise_signal(signal.SIGTERM)
        return plain(number)

    walk.step = step
    with preemption.listening(), pytest.raises(preemption.Preempted, match="at iteration 7 of 20"):
        walk.train(tmp_path, 20, checkpoint_every=5)
    again = Walk()
    again.train(tmp_path, 20)
    assert again.seen == list(range(7, 20)) and float(again.place) == sum(range(20))
