"""Commands whose output is no longer read, as behind `| head`."""

import os
import subprocess
import sys

import pytest

from lci_tf import closed_pipe

BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
FAILING = "from lci_tf import cli\ndef main():\n  print('results')\n  raise {}\ncli.run(main, '')"


@pytest.fixture
def closed():
    """The writing end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


def run(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE):
    return subprocess.run([sys.executable, *arguments], stdout=stdout, stderr=stderr, text=True, env=BUFFERED)


COMMANDS = {
    "the list of commands": ["-m", "lci_tf"],
    "help": ["-m", "lci_tf.train", "--help"],
    "output": ["-m", "lci_tf.settings"],
    "output line by line": ["-u", "-m", "lci_tf.settings"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_nobody_reads_ends_quietly(command, closed):
    ended = run(*COMMANDS[command], stdout=closed)
    assert (ended.returncode, ended.stderr) == (141, "")


def test_messages_that_nobody_reads(closed):
    """As in `2>&1 | head`."""
    assert run("-m", "lci_tf.settings", "--transforms=unknown", stdout=closed, stderr=closed).returncode == 141


@pytest.mark.parametrize("error", ["BrokenPipeError(32, 'Broken pipe')", "OSError(28, 'No space left on device')"])
def test_other_errors_are_reported(error):
    """Such as those of a server that hangs up."""
    ended = run("-c", FAILING.format(error))
    assert ended.returncode == 2 and ended.stderr.startswith("lci_tf.-c: [Errno ") and ended.stdout == "results\n"


def test_a_full_disk_is_reported_even_if_nobody_reads_the_results(closed):
    ended = run("-c", FAILING.format("OSError(28, 'No space left on device')"), stdout=closed)
    assert ended.stderr == "lci_tf.-c: [Errno 28] No space left on device\n"


def test_another_broken_pipe_is_an_error():
    with pytest.raises(BrokenPipeError), closed_pipe.ends_quietly():
        raise BrokenPipeError
