"""With real signals, sent to this process."""

import os
import signal
import subprocess
import sys

import pytest

from lci_tf.runs import preemption


def be_told_to_end():
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture
def steps():
    """Takes steps, and is told to end within one of them; gives how many were begun, ended and kept."""

    def take(told_at, any_asked=None, within=lambda: None):
        begun, ended, kept = [], [], []

        def save():
            kept.extend(ended)
            return f"at step {len(kept)} of 9"

        with (
            pytest.raises(preemption.Preempted) as caught,
            preemption.listening(),
            preemption.kept_by(save, any_asked) as after_step,
        ):
            for step in range(1, 10):
                begun.append(step)
                within()
                if step == told_at:
                    be_told_to_end()
                ended.append(step)
                after_step()
        return str(caught.value), begun, ended, kept

    before = signal.getsignal(signal.SIGTERM)
    yield take
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_step_is_finished_and_kept(steps):
    message, begun, ended, kept = steps(told_at=4)
    assert message == "ended by SIGTERM at step 4 of 9; started again, it resumes from there"
    assert begun == ended == kept == [1, 2, 3, 4]


def test_in_the_first_step_there_is_nothing_to_keep(steps):
    message, begun, ended, kept = steps(told_at=1)
    assert message.startswith("ended by SIGTERM; started again") and begun == [1] and not ended and not kept


def test_what_changes_nothing_is_left_at_once(steps):
    looked = []

    def look():
        with preemption.at_once():
            if len(looked) == 3:
                be_told_to_end()
            looked.append(1)

    message, begun, _, kept = steps(told_at=None, within=look)
    assert "at step 3 of 9" in message and begun == [1, 2, 3, 4] and kept == [1, 2, 3] and len(looked) == 3


def test_of_several_all_end_when_one_is_told_to(steps):
    """Here it is another one; and none leaves before the others know, wherever it is told."""
    asked = []

    def any_asked(mine):
        asked.append(mine)
        return len(asked) == 5

    message, _, ended, kept = steps(told_at=None, any_asked=any_asked)
    assert "at step 5 of 9" in message and kept == ended == [1, 2, 3, 4, 5] and asked == [False] * 5

    def look():
        with preemption.at_once():
            if looked.append(1) or len(looked) == 3:
                be_told_to_end()

    looked = []
    _, begun, _, kept = steps(told_at=None, any_asked=bool, within=look)
    assert begun == kept == [1, 2, 3]


def test_a_command_ends_in_one_line_though_its_threads_wait():
    script = """
import os, signal, sys, threading
from lci_tf import cli

def main():
    threading.Thread(target=threading.Event().wait).start()
    os.kill(os.getpid(), signal.SIGTERM)

sys.argv = ["embed.py"]
cli.run(main, "")
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert ended.returncode == preemption.TRY_AGAIN == 75
    assert ended.stderr == "lci_tf.embed: ended by SIGTERM; started again, it resumes from what was saved\n"
