import threading
import time

import pytest

from lci_tf.serving.client.in_order import in_order


def test_answers_come_in_order_however_long_each_takes():
    def slow_when_small(i):
        time.sleep(0.02 * (5 - i % 5))
        return i * i

    assert list(in_order(slow_when_small, range(20), in_flight=4)) == [i * i for i in range(20)]


def test_no_more_than_so_many_at_once():
    running, most, taken, lock = 0, 0, [], threading.Lock()

    def items():
        for i in range(30):
            taken.append(i)
            yield i

    def count(i):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.005)
        with lock:
            running -= 1
        return i

    answers = in_order(count, items(), in_flight=3)
    assert next(answers) == 0
    assert len(taken) <= 4
    list(answers)
    assert most == 3


def test_a_failure_comes_in_its_turn():
    def fail_at_3(i):
        if i == 3:
            raise ValueError("three")
        return i

    answers = in_order(fail_at_3, range(10), in_flight=4)
    assert [next(answers) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        next(answers)
