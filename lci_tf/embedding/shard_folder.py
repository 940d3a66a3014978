"""A folder of features in shards, each of which is either complete or absent.

A shard is written under another name, flushed to disk, and renamed when it is complete. Notes beside it give its number
of images, the unreadable ones, and its size and checksum, which are verified at the next start. If SIGTERM ends the
process, the shard that was being written is kept as *begun*.
"""

import abc
import contextlib
import json
import logging
import pathlib
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from lci_tf import files
from lci_tf.errors import InputError
from lci_tf.runs import preemption

BAD_IMAGES, SUMMARY = "bad_images.txt", "summary.json"
log = logging.getLogger("lci_tf")
Notes = dict[str, Any]  # "images", "unreadable" (names), "bytes", "crc32"


class Rows(NamedTuple):
    """The features of some images.

    Attributes:
      index: numbers of the images, int64 [n].
      names: where each image comes from, in one line.
      features: by name, float32 [n, …].
      valid: whether each image could be read, bool [n].
    """

    index: np.ndarray  # type: ignore[assignment]  # instead of tuple's method
    names: list[str]
    features: dict[str, np.ndarray]
    valid: np.ndarray

    def part(self, first: int, last: int) -> "Rows":
        features = {name: rows[first:last] for name, rows in self.features.items()}
        return Rows(self.index[first:last], self.names[first:last], features, self.valid[first:last])


class ShardFile(Protocol):
    """A file that is being written."""

    def add(self, rows: Rows) -> None: ...

    def add_all_of(self, begun: pathlib.Path) -> None:
        """Adds the contents of another such file."""

    def close(self) -> None: ...


class Shards(abc.ABC):
    """The shards of a folder.

    Args:
      folder: a folder for these shards alone.
      shapes: shape of one row of each feature, by name.
    """

    ending: str

    def __init__(self, folder: pathlib.Path, shapes: dict[str, tuple[int, ...]]):
        self.folder, self.shapes = folder, shapes

    def path(self, shard: int) -> pathlib.Path:
        return self.folder / f"features-{shard:05d}.{self.ending}"

    def is_there(self, shard: int) -> bool:
        return self.path(shard).exists()

    def missing(self, shards: Iterable[int]) -> list[int]:
        """The shards among these that do not exist; lists the folder once."""
        there = {path.name for path in self.folder.iterdir()}
        return [shard for shard in shards if self.path(shard).name not in there]

    def first_missing(self) -> int:
        shard = 0
        while self.is_there(shard):
            shard += 1
        return shard

    def verify(self) -> None:
        """Removes damaged shards with a warning, so that they are made again. Call it before `write`."""
        found = sorted(
            p for p in self.folder.iterdir() if p.name.startswith("features-") and p.suffix[1:] == self.ending
        )
        for path in tqdm(found, desc="checking", unit=" shards", leave=False, delay=3):
            if why := _damage(path, _read(_notes_of(path))):
                log.warning("%s: %s; it will be made again", path, why)
                path.unlink()

    def count_begun(self, shard: int) -> int:
        """The number of images of a shard that are kept from a process that SIGTERM ended."""
        notes = _read(_notes_of(self._begun(shard)))
        return 0 if notes is None or _damage(self._begun(shard), notes) else notes["images"]

    def write(self, shard: int, batches: Iterable[Rows], goes_on: bool = False) -> None:
        """Writes a complete shard, or keeps what there is if SIGTERM ends the process.

        Args:
          goes_on: whether the batches continue a shard that was begun, if there is one.
        """
        # Under a unique name, as a pipeline may let two workers make the same shard.
        beside = self.folder / f".{self.path(shard).name}.{uuid.uuid4().hex}.new"
        notes: dict[str, Any] = {"images": 0, "unreadable": []}
        is_whole = False

        def keep():
            if not is_whole:
                self._put(file, beside, notes, self._begun(shard))
            return f"at image {notes['images']:,} of shard {shard}"

        try:
            with self._one_line_errors():
                file = self._open(beside)
                if goes_on and self.count_begun(shard):
                    file.add_all_of(self._begun(shard))
                    notes |= _read(_notes_of(self._begun(shard))) or {}
            with preemption.kept_by(keep) as after_batch:
                batches = iter(batches)
                while True:
                    with preemption.at_once():
                        rows = next(batches, None)
                    if rows is None:
                        break
                    with self._one_line_errors():
                        file.add(rows)
                    notes["unreadable"] += [rows.names[i] for i in np.flatnonzero(~rows.valid)]
                    notes["images"] += len(rows.index)
                    after_batch()
                self._put(file, beside, notes, self.path(shard))
                is_whole = True
        finally:
            with contextlib.suppress(Exception):  # the disk is full, which was reported, or the file is closed
                file.close()
            beside.unlink(missing_ok=True)

    def _put(self, file, beside, notes, path):
        with self._one_line_errors():
            file.close()
            if path.name[0] != "." and path.exists():
                return  # another worker was faster
            files.sync(beside)
            # Written before the shard exists, so that no shard is ever without notes.
            files.replace_file(_notes_of(path), json.dumps({**notes, **files.seal(beside)}) + "\n")
            beside.replace(path)

    def summary(self) -> dict[str, int] | None:
        """What `finish` returned; None if it was not called yet, or if files have been lost or damaged since."""
        path = self.folder / SUMMARY
        if not path.is_file():
            return None
        found = json.loads(path.read_text())
        kept = {self.folder / name: notes for name, notes in found.get("files", {}).items()}
        for file, notes in kept.items():
            if why := _damage(file, notes, by_size_alone=True):
                log.warning("%s: %s; it will be made again", file, why)
                for shard, notes in kept.items():
                    if "images" in notes:
                        files.replace_file(_notes_of(shard), json.dumps(notes) + "\n")
                path.unlink()
                return None
        return {name: found[name] for name in ("images", "unreadable")}

    def finish(self) -> dict[str, int]:
        """Call it when all shards exist. Returns the number of `"images"`, and how many are `"unreadable"`."""
        shards = range(self.first_missing())
        of_shards: dict[str, Any] = {self.path(shard).name: _read(_notes_of(self.path(shard))) for shard in shards}
        for name, notes in of_shards.items():
            if why := _damage(self.folder / name, notes, by_size_alone=True):
                raise InputError(f"{self.folder / name}: {why}; start again to make it again")
        bad = [name for notes in of_shards.values() for name in notes["unreadable"]]
        found = {"images": sum(notes["images"] for notes in of_shards.values()), "unreadable": len(bad)}
        with self._one_line_errors():
            files.replace_file(self.folder / BAD_IMAGES, "".join(f"{name}\n" for name in bad))
            made = self._join(shards, found["images"])
            kept = {name: files.seal(self.folder / name) for name in made} or of_shards
            files.replace_file(self.folder / SUMMARY, json.dumps({**found, "files": kept}, indent=2) + "\n")
        for path in self.folder.iterdir():
            if path.name.startswith(".features-"):  # notes, and leftovers of interrupted writing
                path.unlink(missing_ok=True)
        if made:
            for shard in shards:
                self.path(shard).unlink()
        return found

    def _begun(self, shard):
        return self.folder / f".{self.path(shard).stem}.begun"

    @contextlib.contextmanager
    def _one_line_errors(self) -> Iterator[None]:
        """Reports in one line that the folder cannot be written to, as when the disk is full."""
        try:
            yield
        except (OSError, tf.errors.OpError) as error:
            why = getattr(error, "strerror", None) or str(error).splitlines()[0]
            raise InputError(f"--out_dir={self.folder}: cannot be written to ({why}); when that is fixed, start "
                             "again, and it resumes after the last complete shard") from error  # fmt: skip

    @abc.abstractmethod
    def _open(self, path: pathlib.Path) -> ShardFile:
        """Opens a new file for a shard."""

    def _join(self, shards: Iterable[int], count: int) -> list[str]:
        """Joins the shards to other files if the user asked for them, and returns their names."""
        return []


def _notes_of(path):
    return path.with_name(f".{path.name.removeprefix('.')}.notes")


def _read(path) -> Notes | None:
    """The notes, or None if there are none, or only those of an earlier version, without a checksum."""
    try:
        notes = json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return notes if isinstance(notes, dict) and "crc32" in notes else None


def _damage(path, notes, by_size_alone=False) -> str | None:
    """What is wrong with a file, or None if it is as its notes say."""
    if notes is None:
        return "has no notes about its contents"
    if not path.exists():
        return "is missing"
    if (size := files.size_of(path)) != notes["bytes"]:
        return f"has {size:,} bytes, and had {notes['bytes']:,}"
    return None if by_size_alone or files.seal(path)["crc32"] == notes["crc32"] else "has another checksum than it had"
