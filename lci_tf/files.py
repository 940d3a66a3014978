"""Paths on a disk or in a bucket, and files that are replaced in one piece."""

import os
import pathlib

from lci_tf.errors import InputError


def is_bucket(path: str | os.PathLike) -> bool:
    """Whether a path is a URL, such as gs://bucket/photos."""
    return "://" in os.fspath(path)


def place(path: str | os.PathLike) -> pathlib.Path:
    """A path to work with; that of a bucket has the methods of `pathlib.Path` too, by TensorFlow's file systems."""
    if is_bucket(path):
        import tensorflow as tf
        from etils import epath

        if os.fspath(path).partition("://")[0] not in tf.io.gfile.get_registered_schemes():
            raise InputError(f"{path}: is in no kind of storage that TensorFlow knows; buckets are named gs://…")
        return epath.Path(path)
    return pathlib.Path(path).expanduser()


def absolute(path: str | os.PathLike) -> str:
    if is_bucket(path):
        return os.fspath(path)
    return os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111 (pathlib keeps "..")


def replace_file(path: pathlib.Path, text: str) -> None:
    """Writes a file in one piece: whoever reads it finds the old text or the new."""
    if is_bucket(path):
        path.write_text(text)  # where an object is never seen in part
        return
    beside = path.with_name(f".{path.name}.new")
    with beside.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
