"""Fingerprints identify a set of images without reading all of it, by names, sizes, stored checksums and samples.

Each function yields the facts that go into a fingerprint, as bytes. The location of the images is not among them.
"""

import concurrent.futures
import hashlib
import os
import struct
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from lci_tf import files

SAMPLES = 256  # images that are read, where sizes cannot tell images apart
_THREADS = 32  # parallel requests to a disk, which may be on a network
_UNCOMPRESSED = ".bmp"  # as large as any other image of as many pixels
_ENDS = 4096  # bytes that are read at either end of a file


def digest(facts: Iterable[bytes]) -> str:
    """The fingerprint of these facts, 16 hexadecimal digits."""
    total = hashlib.sha256()
    for fact in facts:
        total.update(len(fact).to_bytes(8, "little") + fact)
    return total.hexdigest()[:16]


def of_files(paths: Sequence[str]) -> Iterator[bytes]:
    """Facts about image files: their names relative to their common folder, and their sizes.

    In a bucket, where asking for a size takes as long as reading a file, only some sizes. Where sizes tell nothing, as
    all are the same or files are not compressed, also samples of the contents.
    """
    folder = os.path.dirname(os.path.commonprefix(paths))  # noqa: PTH120, RUF071 (of URLs too)
    yield os.fsencode("\0".join(path[len(folder) :] for path in paths))
    sized = [paths[i] for i in _spread(len(paths))] if paths and files.is_bucket(paths[0]) else paths
    sizes = np.array([size for portion in _in_portions(_sizes, sized) for size in portion], np.int64)
    yield sizes.tobytes()
    is_one_size = len(sizes) > 1 and sizes.min() == sizes.max()
    alike = paths if is_one_size else [path for path in paths if path.lower().endswith(_UNCOMPRESSED)]
    yield from _in_portions(_contents, [alike[i] for i in _spread(len(alike))], 1)


def of_contents(paths: Sequence[str]) -> Iterator[bytes]:
    """Facts about small files that are labels themselves, such as masks: what is in them, whatever their sizes."""
    yield from _in_portions(_digests, paths)


def of_array(array: np.ndarray) -> Iterator[bytes]:
    """Facts about images in an array, which are all of one size: its shape, and samples."""
    yield repr((array.shape, array.dtype.str)).encode()
    for i in _spread(len(array)):
        yield np.ascontiguousarray(array[i]).tobytes()


def of_records(paths: Sequence[str]) -> Iterator[bytes]:
    """Facts about TFRecord files: their names, and the lengths and checksums stored with the records."""
    for path in paths:
        yield os.fsencode(os.path.basename(path))  # noqa: PTH119
        yield b"".join(_ends(path) if _has_no_checksums(path) else _checksums(path))


def _spread(count):
    """Indices of at most `SAMPLES` items, evenly spaced, including the first and the last."""
    return np.unique(np.linspace(0, count - 1, min(count, SAMPLES)).round().astype(int))


def _in_portions(function, items, size=1000):
    portions = [items[first : first + size] for first in range(0, len(items), size)]
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        yield from pool.map(function, portions)


def _sizes(paths):
    """Sizes of files in bytes; -1 for files that do not exist."""
    return [_size(path) for path in paths]


def _size(path):
    try:
        # pathlib takes twice as long.
        return tf.io.gfile.stat(path).length if files.is_bucket(path) else os.stat(path).st_size  # noqa: PTH116
    except (OSError, tf.errors.OpError):
        return -1


def _contents(paths):
    try:
        return b"".join(files.as_path(path).read_bytes() for path in paths)
    except (OSError, tf.errors.OpError):
        return b""


def _digests(paths):
    return b"".join(hashlib.sha256(_contents([path])).digest() for path in paths)


def _has_no_checksums(path):
    """Whether a file of records has no checksums that can be read without reading the whole file."""
    return path.endswith((".gz", ".gzip")) or files.is_bucket(path)


def _ends(path):
    """The size of a file and its first and last bytes; in a compressed file, the last include a checksum."""
    with tf.io.gfile.GFile(path, "rb") as file:
        size = file.size()
        yield struct.pack("<q", size)
        yield file.read(_ENDS)
        file.seek(max(0, size - _ENDS))
        yield file.read(_ENDS)


def _checksums(path):
    """From a file of records, each: length (8 bytes), its checksum (4), data, their checksum (4)."""
    file = os.open(path, os.O_RDONLY)
    try:
        start, header = 0, os.pread(file, 12, 0)
        while len(header) == 12:
            end = start + 12 + struct.unpack("<q", header[:8])[0]
            after = os.pread(file, 16, end)  # the checksum, and the next header
            yield header[:8] + after[:4]
            start, header = end + 4, after[4:]
    finally:
        os.close(file)
