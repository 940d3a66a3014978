"""Paths on disk or in a cloud bucket, and atomic replacement of files."""

import os
import pathlib
import zlib

from lci_tf.errors import InputError


def is_bucket(path: str | os.PathLike) -> bool:
    """Whether a path is the URL of something in a bucket, such as gs://bucket/photos."""
    return "://" in os.fspath(path)


def as_path(path: str | os.PathLike) -> pathlib.Path:
    """A `pathlib.Path`; for a bucket, an object with the same methods that works through TensorFlow's file systems."""
    if is_bucket(path):
        import tensorflow as tf
        from etils import epath

        if os.fspath(path).partition("://")[0] not in tf.io.gfile.get_registered_schemes():
            raise InputError(f"{path}: TensorFlow does not support this kind of storage; buckets are named gs://…")
        return epath.Path(path)
    return pathlib.Path(path).expanduser()


def absolute(path: str | os.PathLike) -> str:
    """The absolute path, with `~` expanded; URLs of buckets are returned as they are."""
    if is_bucket(path):
        return os.fspath(path)
    return os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111 (pathlib keeps "..")


def why_no_folder(path: pathlib.Path) -> str:
    """The end of an error message about something that should be a folder and is not."""
    return "is a file; expected a folder" if path.exists() else "no such folder"


def replace_file(path: pathlib.Path, text: str) -> None:
    """Replaces the contents of a file atomically: readers see either the old text or the new, never a part."""
    if is_bucket(path):
        path.write_text(text)  # buckets never show part of an object
        return
    beside = path.with_name(f".{path.name}.new")
    with beside.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def size_of(path: pathlib.Path) -> int:
    """The size of a file in bytes."""
    stat = path.stat()
    return stat.length if is_bucket(path) else stat.st_size  # type: ignore[attr-defined]  # etils has its own result


def sync(path: pathlib.Path) -> None:
    """Flushes a file to disk. If it were renamed without this, it might be empty after a power cut."""
    if not is_bucket(path):
        with path.open("rb+") as file:
            os.fsync(file.fileno())


def seal(path: pathlib.Path) -> dict[str, int | str]:
    """A record to check that a file is complete: its size in `"bytes"`, and its `"crc32"` as hexadecimal digits."""
    size = checksum = 0
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            size, checksum = size + len(piece), zlib.crc32(piece, checksum)
    return {"bytes": size, "crc32": f"{checksum:08x}"}
