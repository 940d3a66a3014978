"""Makes batches of crops in [-1, 1] from a source, for training and for evaluation.

Images are loaded in *chunks*, independent of the batch size: each chunk is a small data set of its own, which survives
unreadable images, and chunks are loaded in parallel. Indexed sources need no shuffle buffer.
"""

import dataclasses
import os
from typing import NamedTuple

import tensorflow as tf

from lci_tf.data import draws
from lci_tf.data.crops import Crops, RandomViews
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import IndexedSource, Row, Source
from lci_tf.imaging import images

_CHUNK_BYTES = 8 * 2**20
SHUFFLE_BUFFER = 10_000  # encoded images; only used for streams


@dataclasses.dataclass(frozen=True)
class Worker:
    """The part of the global batch that this process loads: part `index`, from 0, of `count`."""

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

    Epochs follow each other without a gap: each contains every image exactly once, and its last batch is filled up
    from the next. The batch of step `s` depends only on `seed` and `s`, so a run can begin at any `start_step`, and the
    parts of all workers together are the batch that a single worker would load.

    Args:
      batch_size: images in the global batch, over all workers.
      report: collects unreadable images. Each is replaced by another image of this worker's part.

    Returns:
      Batches of `"image"`: float32 [n, crop, crop, 3], `"index"`: int64 [n], in the source, and `"label"` if the source
      has labels; n = batch_size / worker.count.
    """
    if batch_size % worker.count:
        raise ValueError(f"batch_size {batch_size} is not divisible by the {worker.count} workers")
    part = batch_size // worker.count
    first = worker.index * part  # position of this worker's first image in the global batch

    def with_views(step, rows):
        return rows, draws.uniform(seed, draws.VIEW, step, batch_size, (1, crops.numbers))[first : first + part]

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
    views: str | RandomViews = "centre",
    worker: Worker = ALONE,
) -> tf.data.Dataset:
    """One pass in the stored order; of several workers, each gets every `worker.count`-th chunk of images.

    Args:
      views: `"centre"`, `"five"` or `"ten"` crops of each image (`images.VIEWS`), or random ones.

    Returns:
      Batches of `"image"`: float32 [n, views, crop, crop, 3], `"valid"`: bool [n], `"index"`: int64 [n], and `"label"`
      if the source has labels. An unreadable image keeps its row, which is black and not valid.
    """

    def with_views(rows):
        if isinstance(views, RandomViews):
            return rows, views.of(rows["index"], crops)
        return rows, tf.tile([images.VIEWS[views]], [tf.shape(rows["index"])[0], 1, 1])

    def finish(rows, crop, valid):
        return {**rows, "image": crop, "valid": valid}

    chunk = _chunk_size(crops, views.count if isinstance(views, RandomViews) else len(images.VIEWS[views]))
    chunks = _enumerated(source).batch(chunk).shard(worker.count, worker.index).map(with_views)
    return _scaled(_load(chunks, source, crops, report).map(finish).rebatch(batch_size))


def _chunk_size(crops, views):
    """Images per chunk: many, as each chunk costs an extra millisecond, but few bytes, as each thread holds several."""
    return max(1, min(128, _CHUNK_BYTES // (views * crops.crop_size**2 * 3)))


def _indexed_parts(source, batch_size, first, part, seed, start_step) -> tf.data.Dataset:
    """For each step: (step, rows of this worker's part of the batch)."""

    def rows_of(step):
        position = step * batch_size + first + tf.range(part, dtype=tf.int64)
        index = draws.shuffled(seed, position, source.count)
        return step, {**source.rows(index), "index": index}

    return tf.data.Dataset.counter(start_step).map(rows_of)


def _streamed_parts(source, batch_size, part, seed, start_step, worker) -> tf.data.Dataset:
    """The same for a stream, which all workers read in the same order, each skipping what belongs to the others."""

    def epoch(number):
        # Set here, as `shuffle` mixes in the seed of the whole program, and fails if that is 0.
        tf.random.set_seed(1)
        # `shuffle` takes a single number, so the seed of the epoch is a draw itself.
        order = draws.key(seed, draws.ORDER, number)[0]
        return _enumerated(source).shuffle(SHUFFLE_BUFFER, seed=order)

    skipped = start_step * batch_size
    begin = skipped // source.count if source.count else 0  # whole epochs can be skipped without reading them
    endless = tf.data.Dataset.counter(begin).flat_map(epoch).skip(skipped - begin * (source.count or 0))
    mine = endless.batch(part, drop_remainder=True).shard(worker.count, worker.index)
    return tf.data.Dataset.zip((tf.data.Dataset.counter(start_step), mine))


def _enumerated(source) -> tf.data.Dataset:
    return source.stream().enumerate().map(lambda index, row: {**row, "index": index})


def _load(chunks, source: Source, crops: Crops, report: InputReport) -> tf.data.Dataset:
    """Loads chunks: (rows, views) to (rows, crops uint8 [n, views, crop, crop, 3], which rows are valid, bool [n]).

    Crops of rows that cannot be read are zero.
    """

    def quickly(image, views):
        return images.crop_plain_jpeg(source.read(image), views, crops.crop_size, crops.resize), False

    def thoroughly(image, views):
        image = images.pixels(source.read(image), crops.resize)
        return crops.cut(image, views), crops.shows_pixels & images.is_smaller_than_crop(image, crops.crop_size)

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
    for load in (quickly, thoroughly) if source.is_encoded and crops.shows_pixels else (thoroughly,):
        threads = os.cpu_count() or 1
        chunks = chunks.interleave(
            lambda chunk, load=load: _load_missing(chunk, load),
            cycle_length=2 * threads,
            num_parallel_calls=threads,
            deterministic=True,
        )
    return chunks.map(note)


class _Chunk(NamedTuple):
    """A chunk of images while it is being loaded: what to load, and what has been loaded so far."""

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
        # Followed by an element that always loads, so that there is something to batch even if all rows fail.
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

    # If nothing is missing, the attempt is not even built, which would take a millisecond.
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
    # There is nothing to tune, and autotune's bookkeeping for each image of each chunk costs a tenth of the rate.
    options.autotune.enabled = False
    return batches.prefetch(2).with_options(options)


def _fill_gaps(batch, valid, report):
    """Replaces each invalid row by the nearest valid one before it, or else by the first valid one."""

    def give_up():
        return tf.numpy_function(report.give_up, [batch["index"]], tf.int32)

    def stand_ins():
        last_valid = tf.scan(tf.maximum, tf.where(valid, tf.range(tf.size(valid)), -1))
        first_valid = tf.argmax(tf.cast(valid, tf.int32), output_type=tf.int32)
        return tf.where(last_valid < 0, first_valid, last_valid)

    take = tf.ensure_shape(tf.cond(tf.reduce_any(valid), stand_ins, give_up), valid.shape)
    return tf.nest.map_structure(lambda column: tf.gather(column, take), batch)
