"""Features on disk: TFRecord shards, or a `.npy` per feature, made of shards.

A shard is whole or not there: it is written under another name, and renamed when it is complete. Images that could not
be read have a row of zeros, and are listed in `bad_images.txt`.
"""

import abc
import contextlib
import json
import pathlib
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from lci_tf.files import replace_file

BAD_IMAGES, PATHS, SUMMARY = "bad_images.txt", "paths.txt", "summary.json"


class Rows(NamedTuple):
    """Some images.

    Attributes:
      index: their numbers, int64 [n].
      names: where each comes from, in one line.
      features: by name, float32 [n, …].
      valid: bool [n].
    """

    index: np.ndarray
    names: list[str]
    features: dict[str, np.ndarray]
    valid: np.ndarray

    def part(self, first: int, last: int) -> "Rows":
        features = {name: rows[first:last] for name, rows in self.features.items()}
        return Rows(self.index[first:last], self.names[first:last], features, self.valid[first:last])


class Shards(abc.ABC):
    """The shards of a folder.

    Args:
      folder: theirs alone.
      shapes: of one row of each feature, by its name.
    """

    ending: str

    def __init__(self, folder: pathlib.Path, shapes: dict[str, tuple[int, ...]]):
        self.folder, self.shapes = folder, shapes

    def path(self, shard: int) -> pathlib.Path:
        return self.folder / f"features-{shard:05d}.{self.ending}"

    def is_there(self, shard: int) -> bool:
        return self.path(shard).exists()

    def missing(self, shards: Iterable[int]) -> list[int]:
        """Which of these are not there, by one look at the folder."""
        there = {path.name for path in self.folder.iterdir()}
        return [shard for shard in shards if self.path(shard).name not in there]

    def first_missing(self) -> int:
        shard = 0
        while self.is_there(shard):
            shard += 1
        return shard

    def write(self, shard: int, batches: Iterable[Rows]) -> None:
        """Writes a shard whole."""
        # Under a name of its own: a pipeline may have two workers make the same shard.
        beside, bad, count = self.folder / f".{self.path(shard).name}.{uuid.uuid4().hex}.new", [], 0
        with self._writer(beside) as add:
            for rows in batches:
                add(rows)
                bad += [rows.names[i] for i in np.flatnonzero(~rows.valid)]
                count += len(rows.index)
        # Told before the shard counts, so that nothing is lost between.
        notes = beside.with_suffix(".notes")
        notes.write_text("".join(f"{line}\n" for line in [count, *bad]))
        notes.replace(self._notes(shard))
        beside.replace(self.path(shard))

    def summary(self) -> dict[str, int] | None:
        """What `finish` found; None if it was not called yet."""
        path = self.folder / SUMMARY
        return json.loads(path.read_text()) if path.is_file() else None

    def finish(self) -> dict[str, int]:
        """To be called when all shards are there: how many `"images"`, and how many `"unreadable"` ones there are."""
        shards = range(self.first_missing())
        notes = [self._notes(shard).read_text().splitlines() for shard in shards]
        bad = [name for _, *names in notes for name in names]
        replace_file(self.folder / BAD_IMAGES, "".join(f"{name}\n" for name in bad))
        found = {"images": sum(int(count) for count, *_ in notes), "unreadable": len(bad)}
        self._join(shards, found["images"])
        replace_file(self.folder / SUMMARY, json.dumps(found) + "\n")
        for path in self.folder.iterdir():
            if path.name.startswith(".features-"):  # notes, and what was left half-written
                path.unlink(missing_ok=True)
        self._clear(shards)
        return found

    def _notes(self, shard):
        return self.folder / f".{self.path(shard).stem}.notes"

    @abc.abstractmethod
    def _writer(self, path) -> contextlib.AbstractContextManager[Callable[[Rows], None]]:
        """What writes a file: gives a function to be called with some rows, again and again."""

    def _join(self, shards, count):  # noqa: B027 (TFRecord shards need nothing)
        """Makes of the shards what the user asked for."""

    def _clear(self, shards):  # noqa: B027
        """Removes what is not needed any more."""


class TFRecordShards(Shards):
    """`tf.train.Example`s with `image/name`, `image/index`, `valid`, and each feature as a flat list of floats."""

    ending = "tfrecord"

    @contextlib.contextmanager
    def _writer(self, path) -> Iterator:
        with tf.io.TFRecordWriter(str(path)) as writer:

            def add(rows):
                for i, name in enumerate(rows.names):
                    feature = {
                        "image/name": _bytes(name.encode()),
                        "image/index": _ints(int(rows.index[i])),
                        "valid": _ints(int(rows.valid[i])),
                        **{f: _floats(values[i].ravel()) for f, values in rows.features.items()},
                    }
                    example = tf.train.Example(features=tf.train.Features(feature=feature))
                    writer.write(example.SerializeToString())

            yield add


class NumpyShards(Shards):
    """At the end `FEATURE.npy`, a row for each image, and `paths.txt`, a line for each. Until then, `.npz` shards."""

    ending = "npz"

    @contextlib.contextmanager
    def _writer(self, path) -> Iterator:
        kept = []
        yield kept.append
        names = np.array([name for rows in kept for name in rows.names])
        features = {name: np.concatenate([rows.features[name] for rows in kept]) for name in self.shapes}
        with path.open("wb") as file:
            np.savez(file, names=names, **features)

    def _join(self, shards, count):
        for name, shape in self.shapes.items():
            beside, row = self.folder / f".{name}.npy.new", 0
            whole = np.lib.format.open_memmap(beside, "w+", np.float32, (count, *shape))
            for shard in shards:
                part = np.load(self.path(shard))[name]
                whole[row : row + len(part)] = part
                row += len(part)
            whole.flush()
            beside.replace(self.folder / f"{name}.npy")
        lines = (line for shard in shards for line in np.load(self.path(shard))["names"].tolist())
        replace_file(self.folder / PATHS, "".join(f"{line}\n" for line in lines))

    def _clear(self, shards):
        for shard in shards:
            self.path(shard).unlink()


def _bytes(value):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def _ints(value):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


def _floats(values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


FORMATS = {"tfrecord": TFRecordShards, "npy": NumpyShards}
