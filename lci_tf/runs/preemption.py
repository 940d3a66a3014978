"""Ends a command cleanly on SIGTERM, which schedulers and preemptible machines send some seconds before they kill.

The command ends with exit code 75, which asks to be started again: immediately if there is nothing to save, and between
two steps for work within `kept_by`. Outside commands, as in a notebook, SIGTERM is not handled.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

TRY_AGAIN = 75  # EX_TEMPFAIL in sysexits.h: the same may succeed later


class Preempted(BaseException):
    """Ends the work, which can be resumed. Like `KeyboardInterrupt` it is not an error, so that nothing handles it."""

    def __init__(self, message: str = "ended by SIGTERM; started again, it resumes from what was saved"):
        super().__init__(message)


class _State:
    is_listening = False
    is_asked = False
    waits_for_a_step = False
    """Whether there is something to save, so that the work must not end just anywhere."""
    is_one_of_several = False
    """Whether other processes depend on this one, which can then only end between steps, as they do."""


_state = _State()


def _on_sigterm(signal_number, frame):
    _state.is_asked = True
    if not _state.waits_for_a_step:
        raise Preempted


def _take_the_signal():
    if _state.is_listening and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _on_sigterm)


@contextlib.contextmanager
def listening() -> Iterator[None]:
    """A context in which SIGTERM raises `Preempted`."""
    before = signal.getsignal(signal.SIGTERM)
    _state.is_listening, _state.is_asked = True, False
    _take_the_signal()
    try:
        yield
    finally:
        _state.is_listening = _state.is_asked = False
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def is_asked() -> bool:
    """Whether this process has received SIGTERM."""
    return _state.is_asked


@contextlib.contextmanager
def kept_by(save: Callable[[], str], any_asked: Callable[[bool], bool] | None = None) -> Iterator[Callable[[], None]]:
    """A context in which work ends after a step, not in the middle of one.

        with preemption.kept_by(save) as after_step:
            for batch in batches:
                take_step(batch)
                after_step()

    Before the first step there is nothing to save, and the work ends immediately.

    Args:
      save: saves the work, and returns a description of its state, such as "at step 20 of 100".
      any_asked: for work that several processes share: function from whether this process has received SIGTERM to
        whether any of them has. All processes call it after each step.
    """
    if threading.current_thread() is not threading.main_thread():  # as in a pipeline's worker, which gets no signals
        yield lambda: None
        return
    _take_the_signal()  # TensorFlow may have installed its own handler since, with a cluster
    _state.is_one_of_several = any_asked is not None

    def after_step():
        _state.waits_for_a_step = True
        if any_asked(_state.is_asked) if any_asked else _state.is_asked:
            raise Preempted

    try:
        yield after_step
        if _state.is_asked and not any_asked:  # between the last step and here
            raise Preempted
    except Preempted:
        if _state.waits_for_a_step:
            raise Preempted(f"ended by SIGTERM {save()}; started again, it resumes from there") from None
        raise
    finally:
        _state.waits_for_a_step = _state.is_one_of_several = False


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """A context within `kept_by` for work that is long but changes nothing: it can be interrupted and repeated."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = _state.waits_for_a_step
    _state.waits_for_a_step = before and _state.is_one_of_several
    try:
        if _state.is_asked and not _state.waits_for_a_step:
            raise Preempted
        yield
    finally:
        _state.waits_for_a_step = before
