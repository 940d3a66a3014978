"""What an epoch of 40,000 images takes, beside one of 2,000: resident memory."""

import pathlib
import tempfile

from benchmarks.measuring import BATCH, CROP, RESIZE, in_own_process, link_many, peak_memory, write_jpegs


def run():
    """Each count in a process of its own, over links to one file."""
    with tempfile.TemporaryDirectory() as made:
        image = write_jpegs(pathlib.Path(made), 1) / "00000.jpg"
        for count in (2_000, 40_000):
            in_own_process("bench_memory", "run_epoch", link_many(image, pathlib.Path(made) / str(count), count))


def run_epoch(folder):
    from lci_tf.data import pipeline
    from lci_tf.data.input_report import InputReport
    from lci_tf.data.sets.folder import open_folder

    source = open_folder(pathlib.Path(folder), split="all")
    crops = pipeline.Crops(CROP, RESIZE)
    batches = iter(pipeline.training_batches(source, crops, BATCH, seed=0, report=InputReport(source)))
    for _ in range(source.count // BATCH):
        next(batches)
    print(f"{source.count:,} images: {peak_memory():,.0f} MB of resident memory at most", flush=True)
