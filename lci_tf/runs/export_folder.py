"""A folder of exports: each version is complete from the moment it appears, and is never overwritten."""

import contextlib
import logging
import os
import pathlib
import re
import shutil
import tempfile
from collections.abc import Iterator

import tensorflow as tf

from lci_tf.errors import InputError

log = logging.getLogger("lci_tf")


def folder_of(export_dir: pathlib.Path, version: int | None = None) -> pathlib.Path:
    """A version's folder, by default the highest one's."""
    versions = _versions(export_dir)
    if version is None and not versions:
        raise InputError(f"{export_dir}: has no exported version, a folder whose name is a number")
    return export_dir / str(version or versions[-1])


@contextlib.contextmanager
def new_version(export_dir: pathlib.Path, version: int | None = None) -> Iterator[pathlib.Path]:
    """A folder to write to, which takes its place as a version when all of it is there."""
    export_dir.mkdir(parents=True, exist_ok=True)
    with alone_in(export_dir):
        version = version or (_versions(export_dir) or [0])[-1] + 1
        place = export_dir / str(version)
        if place.exists():
            raise InputError(f"{place}: this version exists already; choose another --version, or none for the next")
        # A name that is not a number is no version to TF Serving.
        beside = pathlib.Path(tempfile.mkdtemp(prefix=f".{version}-", dir=export_dir))
        try:
            yield beside
            beside.chmod(0o755)
            beside.rename(place)
        except tf.errors.OpError as error:
            raise InputError(f"{export_dir}: the export cannot be written ({error.message.splitlines()[0]})") from error
        finally:
            shutil.rmtree(beside, ignore_errors=True)


@contextlib.contextmanager
def alone_in(export_dir: pathlib.Path) -> Iterator[None]:
    """Locks the folder, so that exports take turns, and removes what a killed export has left behind."""
    import fcntl

    folder = os.open(export_dir, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
        except OSError:
            log.info("%s: no locks on this file system; see that no second process exports there", export_dir)
        else:
            for path in list(export_dir.iterdir()):
                if re.match(r"\.(\d+|keras)-", path.name):
                    shutil.rmtree(path, ignore_errors=True)
        yield
    finally:
        os.close(folder)  # which ends the lock, as the end of the process does


def _versions(export_dir):
    return sorted(int(path.name) for path in export_dir.iterdir() if path.name.isdecimal() and path.is_dir())
