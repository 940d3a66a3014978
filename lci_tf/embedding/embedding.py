"""Computes features of many images, shard by shard: a row for each image, in the order of the data set."""

import itertools
import json
import logging
import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from lci_tf.data.source import IndexedSource, Source
from lci_tf.embedding import known_picture
from lci_tf.embedding.shards import Rows, Shards
from lci_tf.errors import InputError
from lci_tf.files import replace_file
from lci_tf.serving.client.in_order import in_order
from lci_tf.serving.client.predictor import Predictor, predict_readable
from lci_tf.serving.export.signatures import VALID

log = logging.getLogger("lci_tf")
PROTOCOL = "embed.json"
_READ_AT_ONCE = 16  # files
_TRANSIENT = (tf.errors.UnavailableError, tf.errors.UnauthenticatedError, tf.errors.DeadlineExceededError,
              tf.errors.AbortedError, tf.errors.ResourceExhaustedError)  # fmt: skip


class Work(NamedTuple):
    """What to compute.

    Attributes:
      features: names of the model's outputs.
      batch_size: images per call of the model.
      in_flight: number of simultaneous calls.
      shard_size: images per shard; a finished shard is never lost.
      protocol: identifies network, images and features; only work with the same protocol is resumed.
    """

    features: tuple[str, ...]
    batch_size: int
    in_flight: int
    shard_size: int
    protocol: dict[str, Any]


def embed(source: Source, predictor: Predictor, work: Work, shards: Shards) -> dict[str, int]:
    """Embeds all images, or the remaining ones if some shards exist already.

    Returns:
      The number of `"images"`, and how many of them are `"unreadable"`.
    """
    begin(shards.folder, work.protocol)
    if found := shards.summary():
        log.info("%s is finished", shards.folder)
        return found
    shards.verify()
    first = shards.first_missing()
    begun = shards.count_begun(first)
    start = first * work.shard_size + begun
    if start:
        log.info("resuming at image %d", start)
    if begun == work.shard_size:
        shards.write(first, (), goes_on=True)
    with tqdm(total=source.count, initial=start, desc="embedding", unit=" images", smoothing=0.05) as bar:
        for shard, batches in _by_shard(_answers(source, predictor, work, start), work.shard_size):
            shards.write(shard, _with_progress(batches, bar), goes_on=shard == first)
    if begun and not shards.is_there(first):  # and there are no more images
        shards.write(first, (), goes_on=True)
    return shards.finish()


def embed_shard(source: Source, predictor: Predictor, work: Work, shards: Shards, shard: int, count: int) -> None:
    """Embeds the `count` images of one shard, unless it exists; for workers that share the shards."""

    def all_of_them():
        found = 0
        for rows in _answers(source, predictor, work, start, start + count):
            found += len(rows.index)
            yield rows
        if found < count:  # raised before the shard is complete
            raise InputError(f"{source.name} {source.split}: ends at image {start + found:,} on this machine, but not "
                             "on others")  # fmt: skip

    start = shard * work.shard_size
    if not shards.is_there(shard):
        shards.write(shard, all_of_them())


def begin(folder: pathlib.Path, protocol: dict[str, Any]) -> None:
    """Records in the folder what is computed there, or checks that it is the same as before."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / PROTOCOL
    if not path.is_file():
        if any(p.name[0] != "." for p in folder.iterdir()):
            raise InputError(f"--out_dir={folder}: is not empty, and has no {PROTOCOL}; choose a new folder")
        replace_file(path, json.dumps(protocol, indent=2) + "\n")
        return
    before = json.loads(path.read_text())
    for name in {**before, **protocol}:
        if name not in before and name == "lci_tf":  # which was not recorded at first
            continue
        if name == known_picture.ANSWERS:
            known_picture.check(before, protocol[name], f"--out_dir={folder}")
        elif before.get(name) != protocol.get(name):
            raise InputError(f"--out_dir={folder}: was begun with {name} {before.get(name)}, not {protocol.get(name)}; "
                             "choose another --out_dir")  # fmt: skip


def _answers(source, predictor, work, start, stop=None) -> Iterator[Rows]:
    def ask(batch):
        index, contents = batch
        features = predict_readable(predictor, contents, work.features)
        valid = features.pop(VALID)
        return Rows(index, [_in_one_line(source.where(int(i))) for i in index], features, valid)

    return in_order(ask, _contents(source, work.batch_size, start, stop), work.in_flight)


def _in_one_line(name):
    """A name in one line: file names may contain anything but a slash."""
    return name.encode(errors="backslashreplace").decode().replace("\n", "\\n").replace("\r", "\\r")


def _contents(source, batch_size, start, stop):
    """Batches of numbers and encoded images, which are empty if they cannot even be read from disk."""

    if isinstance(source, IndexedSource):
        stop = min(stop or source.count, source.count)
        rows = tf.data.Dataset.range(start, stop).batch(256).map(lambda index: (index, source.rows(index))).unbatch()
        # Unreadable files are skipped here; the gap in the numbers shows which they were.
        loaded = rows.map(lambda index, row: (index, _read(source, row)), _READ_AT_ONCE).ignore_errors()
    else:
        rows = source.stream().enumerate().skip(start)
        wanted = rows.take(stop - start) if stop else rows
        loaded = wanted.map(lambda index, row: (index, _read(source, row)), _READ_AT_ONCE)
    options = tf.data.Options()
    # There is nothing to tune, and closing the data set would wait for the tuner, which sleeps longer and longer.
    options.autotune.enabled = False
    found = loaded.batch(batch_size).prefetch(2).with_options(options).as_numpy_iterator()
    pairs = ((int(i), content) for index, contents in found for i, content in zip(index, contents, strict=True))
    end = stop if isinstance(source, IndexedSource) else None
    whole = _without_gaps(pairs, start, end, lambda i: _read_again(source, i))
    while batch := list(itertools.islice(whole, batch_size)):
        index, contents = zip(*batch, strict=True)
        yield np.array(index), list(contents)


def _without_gaps(pairs, start, end, missing):
    """Pairs (number, content) for all numbers from `start`, up to `end` if it is known."""
    following = start
    for i, content in pairs:
        yield from ((j, missing(j)) for j in range(following, i))
        yield i, content
        following = i + 1
    yield from ((j, missing(j)) for j in range(following, end or following))


def _read(source, row):
    """The encoded image of a row."""
    content = source.read(row["image"])
    return content if source.is_encoded else tf.io.encode_png(content, compression=1)


def _read_again(source, index):
    """Tries once more to read an image; empty if it is unreadable. Raises `InputError` if only its storage is down."""
    rows = source.rows(tf.constant([index], tf.int64))
    try:
        return _read(source, tf.nest.map_structure(lambda column: column[0], rows)).numpy()
    except _TRANSIENT as error:
        raise InputError(f"{source.where(index)}: cannot be reached ({str(error).splitlines()[0]}); started again, "
                         "it resumes after the last complete shard") from None  # fmt: skip
    except tf.errors.OpError:
        return b""


def _by_shard(batches, shard_size):
    """Pairs (number of a shard, its batches); batches are cut where a shard ends."""
    pieces = _cut(batches, shard_size)
    piece = next(pieces, None)
    while piece is not None:
        shard = int(piece.index[0]) // shard_size

        def of_shard(shard=shard):
            nonlocal piece
            while piece is not None and int(piece.index[0]) // shard_size == shard:
                yield piece
                piece = next(pieces, None)

        yield shard, of_shard()


def _cut(batches, shard_size):
    for rows in batches:
        end_of_shard = np.flatnonzero((rows.index + 1) % shard_size == 0) + 1
        for first, last in zip([0, *end_of_shard], [*end_of_shard, len(rows.index)], strict=True):
            if last > first:
                yield rows.part(first, last)


def _with_progress(batches, bar):
    for rows in batches:
        yield rows
        bar.update(len(rows.index))
