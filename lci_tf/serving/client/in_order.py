"""Several calls at once, with their answers in order."""

import collections
import concurrent.futures
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def in_order(function: Callable[[Item], Answer], items: Iterable[Item], in_flight: int) -> Iterator[Answer]:
    """Like `map`, with up to `in_flight` calls under way; no item is taken before there is room for it.

    An exception of a call comes in its turn, and ends it.
    """
    threads = concurrent.futures.ThreadPoolExecutor(in_flight)
    waiting: collections.deque[concurrent.futures.Future] = collections.deque()
    try:
        for item in items:
            if len(waiting) == in_flight:
                yield waiting.popleft().result()
            waiting.append(threads.submit(function, item))
        while waiting:
            yield waiting.popleft().result()
    finally:  # who is interrupted, or wants no more, does not wait for what is under way
        threads.shutdown(wait=False, cancel_futures=True)
