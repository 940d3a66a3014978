"""Asking again, within bounds, when a server is busy or not there for a moment."""

import itertools
import random
import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")

_TRANSIENT = ("UNAVAILABLE", "RESOURCE_EXHAUSTED")
_SHORTEST_PAUSE, _FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.1, 5.0  # seconds
_jitter = random.Random()


class ServerError(Exception):
    """A request failed.

    Args:
      code: the name of gRPC's status code.
      message: what the server said, or what became of the connection.
    """

    def __init__(self, code: str, message: str):
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later. One that is too large will not."""
        return self.code in _TRANSIENT and "larger than max" not in self.message

    def explained(self, model_name: str, deadline: float) -> str:
        """In one line, for the one who asked for this model and gave this deadline."""
        said = " ".join((self.message.splitlines() or [""])[0].split())[:300]
        why = {
            "UNAVAILABLE": "not there, or too busy; scripts/serve EXPORT_DIR starts one",
            "NOT_FOUND": f"serves no model {model_name!r}, or not this version of it",
            "DEADLINE_EXCEEDED": f"no answer within {deadline:g} s",
            "RESOURCE_EXHAUSTED": "takes no more requests, or none of this size",
        }
        return f"{why.get(self.code, f'refuses the request with {self.code}')} ({said})"


def ask(request: Callable[[float], Answer], deadline: float, on_retry: Callable[[ServerError], None]) -> Answer:  # type: ignore[return]
    """The answer to a request, which is repeated after a pause, until the deadline, when it fails for a passing reason.

    Args:
      request: takes the seconds that are left, and raises `ServerError`.
      deadline: seconds for everything, pauses included.
      on_retry: told of the first failure after which it goes on.
    """
    end, failed = time.monotonic() + deadline, None
    for attempt in itertools.count():
        try:
            return request(max(end - time.monotonic(), 1e-3))
        except ServerError as error:
            if (
                failed and error.code == "DEADLINE_EXCEEDED"
            ):  # the last try has little time: why it was needed says more
                raise failed from error
            failed = error
            # Twice as long each time, and not the same for all: those who failed together do not come back together.
            longest = min(_FIRST_PAUSE * 2 ** min(attempt, 9), _LONGEST_PAUSE)
            # Half of what is left at most, so that the last try is near the deadline.
            pause = min(longest * _jitter.uniform(0.5, 1), (end - time.monotonic()) / 2)
            if not error.is_transient or pause < _SHORTEST_PAUSE:
                raise
            if attempt == 0:
                on_retry(error)
            time.sleep(pause)
