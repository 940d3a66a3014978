"""From a source to batches of crops in [-1, 1].

Images are loaded in *chunks*, whatever the size of a batch: a chunk is a small data set of its own, which survives an
unreadable image, and chunks are loaded in parallel. Sources that are indexed are never held in a shuffle buffer.
"""

import dataclasses
import os
from typing import NamedTuple

import tensorflow as tf

from lci_tf.data import draws
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import IndexedSource, Row, Source
from lci_tf.errors import InputError
from lci_tf.imaging import images

_CHUNK_BYTES = 8 * 2**20
SHUFFLE_BUFFER = 10_000  # encoded images, for sources that are streams


@dataclasses.dataclass(frozen=True)
class Crops:
    """How an image becomes a crop: see `images.preprocess`."""

    crop_size: int
    resize: float

    def __post_init__(self):
        if self.resize < self.crop_size:
            raise InputError(f"resize {self.resize} is smaller than crop_size {self.crop_size}")


@dataclasses.dataclass(frozen=True)
class Worker:
    """Which part of the global batch this process loads: part `index` of `count`."""

    index: int
    count: int


ALONE = Worker(index=0, count=1)


def training_batches(
    source: Source,
    crops: Crops,
    batch_size: int,
    seed: int,
    report: InputReport,
    start_step: int = 0,
    worker: Worker = ALONE,
) -> tf.data.Dataset:
    """Endless batches of random crops, half of them mirrored.

    Epochs follow each other without a gap: every image comes exactly once in each, the last batch of one epoch is
    filled from the next. What step `s` holds depends on `seed` and `s` alone, so that a run may begin at any
    `start_step`, and the parts of all workers, side by side, are the batch that a single worker would load.

    Args:
      batch_size: images in a global batch, over all workers.
      report: told of unreadable images. Another image of this worker's part takes the place of each.

    Returns:
      Batches of `"image"`: float32 [n, crop, crop, 3], `"index"`: int64 [n], the image's number, and `"label"` if the
      source has labels; n = batch_size / worker.count.
    """
    if batch_size % worker.count:
        raise ValueError(f"batch_size {batch_size} is not divisible by the {worker.count} workers")
    part = batch_size // worker.count
    first = worker.index * part  # place in the global batch of the first image of this worker's part

    def with_views(step, rows):
        return rows, draws.uniform(seed, draws.VIEW, step, batch_size, (1, 3))[first : first + part]

    def finish(rows, crop, valid):
        batch = {**rows, "image": crop[:, 0]}
        return tf.cond(tf.reduce_all(valid), lambda: batch, lambda: _fill_gaps(batch, valid, report))

    if isinstance(source, IndexedSource):
        parts = _indexed_parts(source, batch_size, first, part, seed, start_step)
    else:
        parts = _streamed_parts(source, batch_size, part, seed, start_step, worker)
    chunks = parts.map(with_views).rebatch(_chunk_size(crops, views=1))
    return _scaled(_load(chunks, source, crops, report).rebatch(part, drop_remainder=True).map(finish))


def evaluation_batches(
    source: Source,
    crops: Crops,
    batch_size: int,
    report: InputReport,
    views: str = "centre",
    worker: Worker = ALONE,
) -> tf.data.Dataset:
    """One pass in the stored order; with several workers, each sees every `worker.count`-th chunk of images.

    Args:
      views: `"centre"`, `"five"` or `"ten"` crops of each image (`images.VIEWS`).

    Returns:
      Batches of `"image"`: float32 [n, views, crop, crop, 3], `"valid"`: bool [n], `"index"`: int64 [n], and `"label"`
      if the source has labels. An unreadable image keeps its row, is black, and is not valid.
    """

    def with_views(rows):
        return rows, tf.tile([images.VIEWS[views]], [tf.shape(rows["index"])[0], 1, 1])

    def finish(rows, crop, valid):
        return {**rows, "image": crop, "valid": valid}

    chunk = _chunk_size(crops, views=len(images.VIEWS[views]))
    chunks = _enumerated(source).batch(chunk).shard(worker.count, worker.index).map(with_views)
    return _scaled(_load(chunks, source, crops, report).map(finish).rebatch(batch_size))


def _chunk_size(crops, views):
    """Many images, because a chunk costs a millisecond beside them, but not many bytes: each thread has several."""
    return max(1, min(128, _CHUNK_BYTES // (views * crops.crop_size**2 * 3)))


def _indexed_parts(source, batch_size, first, part, seed, start_step) -> tf.data.Dataset:
    """(step, rows of this worker's part of the batch)"""

    def rows_of(step):
        position = step * batch_size + first + tf.range(part, dtype=tf.int64)
        index = draws.shuffled(seed, position, source.count)
        return step, {**source.rows(index), "index": index}

    return tf.data.Dataset.counter(start_step).map(rows_of)


def _streamed_parts(source, batch_size, part, seed, start_step, worker) -> tf.data.Dataset:
    """The same of a stream, which every worker reads in the same order, and passes over what belongs to others."""

    def epoch(number):
        # A seed of this function's own: that of the whole program would be mixed in, and if it is 0 `shuffle` fails.
        tf.random.set_seed(1)
        # The seed of an epoch is a draw of its own, because `shuffle` takes a single number.
        order = draws.key(seed, draws.ORDER, number)[0]
        return _enumerated(source).shuffle(SHUFFLE_BUFFER, seed=order)

    skipped = start_step * batch_size
    begin = skipped // source.count if source.count else 0  # whole epochs need not be read to be skipped
    endless = tf.data.Dataset.counter(begin).flat_map(epoch).skip(skipped - begin * (source.count or 0))
    mine = endless.batch(part, drop_remainder=True).shard(worker.count, worker.index)
    return tf.data.Dataset.zip((tf.data.Dataset.counter(start_step), mine))


def _enumerated(source) -> tf.data.Dataset:
    return source.stream().enumerate().map(lambda index, row: {**row, "index": index})


def _load(chunks, source: Source, crops: Crops, report: InputReport) -> tf.data.Dataset:
    """(rows, views) of each chunk to (rows, crops uint8 [n, views, crop, crop, 3], which rows are valid, bool [n]).

    Crops of rows that cannot be read are zero.
    """

    def quickly(image, views):
        return images.crop_plain_jpeg(source.read(image), views, crops.crop_size, crops.resize), False

    def thoroughly(image, views):
        image = images.pixels(source.read(image), crops.resize)
        enlarged = images.is_smaller_than_crop(image, crops.crop_size)
        return images.crop(image, views, crops.crop_size, crops.resize), enlarged

    def nothing_loaded(rows, views):
        count = tf.shape(views)[0]
        crop = tf.zeros([count, views.shape[1], crops.crop_size, crops.crop_size, 3], tf.uint8)
        return _Chunk(rows, views, crop, tf.zeros([count], tf.bool), tf.zeros([count], tf.bool))

    def note(chunk):
        noted = tf.cond(
            tf.reduce_any(~chunk.valid | chunk.enlarged),
            lambda: tf.numpy_function(
                report.note, [chunk.rows["index"], chunk.rows["image"], chunk.valid, chunk.enlarged], tf.bool
            ),
            lambda: False,
        )
        with tf.control_dependencies([noted]):
            return chunk.rows, tf.identity(chunk.crop), chunk.valid

    chunks = chunks.map(nothing_loaded)
    for load in (quickly, thoroughly) if source.is_encoded else (thoroughly,):
        threads = os.cpu_count() or 1
        chunks = chunks.interleave(
            lambda chunk, load=load: _load_missing(chunk, load),
            cycle_length=2 * threads,
            num_parallel_calls=threads,
            deterministic=True,
        )
    return chunks.map(note)


class _Chunk(NamedTuple):
    """Some images on their way: what to load, and what has been loaded of it."""

    rows: Row
    views: tf.Tensor
    crop: tf.Tensor
    enlarged: tf.Tensor
    valid: tf.Tensor


def _load_missing(chunk: _Chunk, load) -> tf.data.Dataset:
    """A data set of one element: the chunk with what `load` could load of the rows that were not valid yet."""
    missing = tf.cast(tf.where(~chunk.valid)[:, 0], tf.int32)

    def attempt():
        image, views = tf.gather(chunk.rows["image"], missing), tf.gather(chunk.views, missing)
        each = tf.data.Dataset.from_tensor_slices((missing, image, views))
        loaded = each.map(lambda slot, image, views: (slot, *load(image, views))).ignore_errors()
        # Behind the last, an element that always loads: there is something to batch even if all rows fail.
        sentinel = tf.data.Dataset.from_tensors((0, tf.zeros(chunk.crop.shape[1:], tf.uint8), False))
        return loaded.concatenate(sentinel).batch(tf.size(missing, tf.int64) + 1).map(merge)

    def merge(slots, crop, enlarged):
        slots, crop, enlarged = slots[:-1], crop[:-1], enlarged[:-1]

        def update(old, new):
            return tf.tensor_scatter_nd_update(old, slots[:, tf.newaxis], new)

        valid = update(chunk.valid, tf.ones_like(slots, tf.bool))
        crop, enlarged = tf.cond(
            tf.equal(tf.size(slots), tf.size(valid)),
            lambda: (crop, enlarged),
            lambda: (update(chunk.crop, crop), update(chunk.enlarged, enlarged)),
        )
        return _Chunk(chunk.rows, chunk.views, tf.ensure_shape(crop, chunk.crop.shape), enlarged, valid)

    # Where nothing is missing, the attempt is not even built: that would take a millisecond.
    variant = tf.cond(
        tf.equal(tf.size(missing), 0),
        lambda: tf.data.experimental.to_variant(tf.data.Dataset.from_tensors(chunk)),
        lambda: tf.data.experimental.to_variant(attempt()),
    )
    spec = tf.nest.map_structure(tf.type_spec_from_value, chunk)
    return tf.data.experimental.from_variant(variant, spec)


def _scaled(batches) -> tf.data.Dataset:
    batches = batches.map(lambda batch: {**batch, "image": images.scale(batch["image"])})
    options = tf.data.Options()
    # There is nothing to tune, and its accounting for every image of every chunk costs a tenth of the rate.
    options.autotune.enabled = False
    return batches.prefetch(2).with_options(options)


def _fill_gaps(batch, valid, report):
    """Puts the nearest valid row before it, or else the first valid one, in the place of each that is not."""

    def give_up():
        return tf.numpy_function(report.give_up, [batch["index"]], tf.int32)

    def stand_ins():
        last_valid = tf.scan(tf.maximum, tf.where(valid, tf.range(tf.size(valid)), -1))
        first_valid = tf.argmax(tf.cast(valid, tf.int32), output_type=tf.int32)
        return tf.where(last_valid < 0, first_valid, last_valid)

    take = tf.ensure_shape(tf.cond(tf.reduce_any(valid), stand_ins, give_up), valid.shape)
    return tf.nest.map_structure(lambda column: tf.gather(column, take), batch)
