"""Holds back what a package prints to stderr while it is imported.

TensorFlow's libraries announce missing GPU drivers and doubly registered factories before any log level can be set.
That would greet everybody who uses lci_tf. If the import fails, what was held back is shown.
"""

import contextlib
import importlib.util
import os
import sys
import tempfile


def install(package: str) -> None:
    """From now on the first import of `package` is quiet."""
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
        if spec is not None:
            load = spec.loader.exec_module

            def load_quietly(module):
                with _stderr_held_back():
                    load(module)

            spec.loader.exec_module = load_quietly
        return spec


@contextlib.contextmanager
def _stderr_held_back():
    sys.stderr.flush()
    with tempfile.TemporaryFile() as held, contextlib.ExitStack() as restore:
        stderr = os.dup(2)
        restore.callback(os.close, stderr)
        restore.callback(os.dup2, stderr, 2)
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(stderr, held.read())
            raise
