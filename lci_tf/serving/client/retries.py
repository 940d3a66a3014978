"""Asking again, within bounds, when a server is busy or not there for a moment."""

import itertools
import random
import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")

_PASSING = ("UNAVAILABLE", "RESOURCE_EXHAUSTED")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # seconds
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
    def is_passing(self) -> bool:
        """Whether the same request may succeed later. One that is too large will not."""
        return self.code in _PASSING and "larger than max" not in self.message

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


def ask(request: Callable[[float], Answer], deadline: float, retries: int) -> Answer:
    """The answer to a request, which is repeated after a pause when it fails for a passing reason.

    Args:
      request: takes the seconds that are left, and raises `ServerError`.
      deadline: seconds for everything, pauses included.
      retries: how often to repeat it at most.
    """
    end = time.monotonic() + deadline
    for attempt in itertools.count():
        try:
            return request(max(end - time.monotonic(), 1e-3))
        except ServerError as error:
            # Twice as long each time, and not the same for all: those who failed together do not come back together.
            pause = min(_FIRST_PAUSE * 2**attempt, _LONGEST_PAUSE) * _jitter.uniform(0.5, 1)
            if not error.is_passing or attempt == retries or time.monotonic() + pause >= end:
                raise
            time.sleep(pause)
