"""Suppresses what a package prints to stderr while it is imported, unless the import fails.

TensorFlow's libraries complain about missing GPU drivers and factories registered twice before any log level can be
set, and every user of lci_tf would see that. If the import fails, the output is shown after all, even if the whole
process dies, as it does on a processor for which TensorFlow was not built. For this, another process holds the output.
"""

import contextlib
import importlib.util
import os
import subprocess
import sys
import uuid

# Reads its input to the end and prints it, unless the last line ends with the token that reports success. Uses only
# shell built-ins, as there may be no PATH.
_HOLD = r"""
held=
while IFS= read -r line; do held="$held$line
"; done
case "$line" in *"$0") ;; *) printf %s "$held$line" >&2 ;; esac
"""


def install(package: str) -> None:
    """Makes the first import of `package`, if it is still to come, quiet."""
    if package not in sys.modules:
        sys.meta_path.insert(0, _Finder(package))


class _Finder:
    def __init__(self, package):
        self._package = package

    def find_spec(self, name, path=None, target=None):
        if name != self._package:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_quietly(module):
                with _stderr_held_back():
                    load(module)

            spec.loader.exec_module = load_quietly  # type: ignore[method-assign]
        return spec


@contextlib.contextmanager
def _stderr_held_back():
    sys.stderr.flush()
    went_well = uuid.uuid4().hex
    with contextlib.ExitStack() as restore:
        try:
            holder = restore.enter_context(subprocess.Popen(["/bin/sh", "-c", _HOLD, went_well], stdin=subprocess.PIPE))
            stderr = os.dup(2)
        except OSError:  # there is no such shell, or stderr is closed: import without suppressing anything
            yield
            return
        restore.callback(os.close, stderr)
        assert holder.stdin is not None  # being a pipe
        os.dup2(holder.stdin.fileno(), 2)
        restore.callback(os.dup2, stderr, 2)  # closes the holder's input
        holder.stdin.close()
        yield
        with contextlib.suppress(BrokenPipeError):  # the shell was killed
            os.write(2, went_well.encode())
