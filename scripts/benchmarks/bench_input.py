"""The input pipeline on a folder of JPEGs, beside bare decoding of the same bytes."""

import pathlib
import statistics
import tempfile
import time

from benchmarks.measuring import BATCH, CROP, RESIZE, decoded, write_jpegs

ROUNDS, IMAGES_PER_ROUND = 9, 10_000


def run(folder=None):
    with tempfile.TemporaryDirectory() as made:
        return _compare(pathlib.Path(folder) if folder else write_jpegs(pathlib.Path(made), 2_000))


def _compare(folder):
    import tensorflow as tf

    from lci_tf.data import pipeline
    from lci_tf.data.input_report import InputReport
    from lci_tf.data.sets.folder import open_folder

    source = open_folder(folder, split="all")
    contents = [pathlib.Path(path).read_bytes() for path in source.paths]
    endless = decoded(contents).repeat()
    same_size = len({tuple(tf.io.extract_jpeg_shape(c).numpy()) for c in contents}) == 1
    bare = (endless.batch(BATCH) if same_size else endless.ragged_batch(BATCH)).prefetch(2)
    whole = pipeline.training_batches(source, pipeline.Crops(CROP, RESIZE), BATCH, seed=0, report=InputReport(source))
    print(f"{source.count:,} JPEGs in {folder}; crops of {CROP} from {RESIZE} pixels, batches of {BATCH}")
    # In turns, so that whatever else the machine does falls on both.
    rates = {"bare decoding": [], "pipeline": []}
    for _ in range(ROUNDS):
        rates["bare decoding"].append(_images_per_second(bare))
        rates["pipeline"].append(_images_per_second(whole))
    for name, values in rates.items():
        low, median, high = min(values), statistics.median(values), max(values)
        print(f"  {name:14s} {median:8,.0f} images/s   (of {ROUNDS} rounds {low:,.0f} to {high:,.0f})")
    ratio = statistics.median(p / b for b, p in zip(rates["bare decoding"], rates["pipeline"], strict=True))
    print(f"  pipeline / bare decoding: {ratio:.0%} (median of the rounds)")
    return {"pipeline / bare decoding": ratio}


def _images_per_second(dataset):
    batches = iter(dataset)  # a new one each time: one that waits would go on filling its buffers
    for _ in range(20):
        next(batches)
    start = time.perf_counter()
    for _ in range(IMAGES_PER_ROUND // BATCH):
        next(batches)
    return IMAGES_PER_ROUND // BATCH * BATCH / (time.perf_counter() - start)
