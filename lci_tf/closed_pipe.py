"""Ends a command quietly when its output is no longer read, as in `python -m lci_tf.train --help | head -3`."""

import contextlib
import os
import select
import sys
from collections.abc import Iterator

EXIT_CODE = 141  # as the shell reports a program that SIGPIPE ended: 128 + 13


@contextlib.contextmanager
def ends_quietly() -> Iterator[None]:
    """A context in which a closed stdout or stderr ends the process without a word. Other broken pipes are errors.

    SIGPIPE itself stays ignored, as Python has it: it would also end a process whose server has hung up.
    """
    try:
        yield
        sys.stdout.flush()  # here, as an error in the interpreter's own last flush cannot be handled
    except BrokenPipeError:
        if not is_closed():
            raise
        for stream in (sys.stdout, sys.stderr):
            if _is_closed(stream):  # what is left to write goes nowhere
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        sys.exit(EXIT_CODE)


def is_closed() -> bool:
    """Whether nobody reads stdout, or nobody reads stderr."""
    return _is_closed(sys.stdout) or _is_closed(sys.stderr)


def _is_closed(stream):
    poll = select.poll()
    poll.register(stream.fileno(), 0)  # errors are always reported
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
