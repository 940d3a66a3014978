"""Formats of features on disk: TFRecord shards, or one `.npy` file per feature, joined from shards; see `shard_folder`.

Unreadable images have a row of zeros, and are listed in `bad_images.txt`.
"""

import itertools
import zipfile
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from lci_tf.embedding.shard_folder import BAD_IMAGES, Rows, Shards
from lci_tf.files import replace_file

__all__ = ["BAD_IMAGES", "FORMATS", "PATHS", "NumpyShards", "Rows", "Shards", "TFRecordShards"]
PATHS = "paths.txt"
_NAMES = ".names"  # entry for the names of images in a shard, beside the features


class TFRecordShards(Shards):
    """`tf.train.Example`s with `image/name`, `image/index`, `valid`, and each feature as a flat list of floats."""

    ending = "tfrecord"

    def _open(self, path):
        return _TFRecordFile(path)


class _TFRecordFile:
    def __init__(self, path):
        self._writer = tf.io.TFRecordWriter(str(path))

    def add(self, rows):
        for i, name in enumerate(rows.names):
            feature = {
                "image/name": _bytes(name.encode()),
                "image/index": _ints(int(rows.index[i])),
                "valid": _ints(int(rows.valid[i])),
                **{f: _floats(values[i].ravel()) for f, values in rows.features.items()},
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            self._writer.write(example.SerializeToString())

    def add_all_of(self, begun):
        for record in tf.data.TFRecordDataset(str(begun)).as_numpy_iterator():
            self._writer.write(record)

    def close(self):
        self._writer.close()


class NumpyShards(Shards):
    """`.npz` shards, which `finish` joins to `FEATURE.npy`, a row per image, and `paths.txt`, a line per image."""

    ending = "npz"

    def _open(self, path):
        return _ZipFile(path)

    def _join(self, shards, count):
        for name, shape in self.shapes.items():
            beside = self.folder / f".{name}.npy.new"
            # Written in order, so that a full disk is an error; with a memory map, it would crash the process.
            try:
                with beside.open("wb") as file:
                    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.float32)), "fortran_order": False}
                    np.lib.format.write_array_header_1_0(file, {**header, "shape": (count, *shape)})
                    for part in self._parts(shards, name):
                        file.write(np.ascontiguousarray(part, np.float32).data)
                beside.replace(self.folder / f"{name}.npy")
            finally:
                beside.unlink(missing_ok=True)
        lines = (line for part in self._parts(shards, _NAMES) for line in part.tolist())
        replace_file(self.folder / PATHS, "".join(f"{line}\n" for line in lines))
        return [*(f"{name}.npy" for name in self.shapes), PATHS]

    def _parts(self, shards, name):
        """All parts of one feature, or of the names, in order."""
        for shard in shards:
            with np.load(self.path(shard)) as arrays:
                yield from (arrays[part] for part in sorted(arrays.files) if part.rpartition("/")[0] == name)


class _ZipFile:
    def __init__(self, path):
        self._archive, self._parts = zipfile.ZipFile(path, "w"), itertools.count()

    def add(self, rows):  # as an entry of its own, so that only these rows are in memory
        part = next(self._parts)
        for name, values in {_NAMES: np.array(rows.names), **rows.features}.items():
            with self._archive.open(f"{name}/{part:06d}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.ascontiguousarray(values))

    def add_all_of(self, begun):
        with zipfile.ZipFile(begun) as archive:
            for name in archive.namelist():
                self._archive.writestr(name, archive.read(name))
        self._parts = itertools.count(len({name.rpartition("/")[2] for name in self._archive.namelist()}))

    def close(self):
        self._archive.close()


def _bytes(value):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def _ints(value):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


def _floats(values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


FORMATS: dict[str, Callable[..., Shards]] = {"tfrecord": TFRecordShards, "npy": NumpyShards}
