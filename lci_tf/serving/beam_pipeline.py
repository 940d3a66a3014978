"""Embedding by many machines: `embedding.embed` as an Apache Beam pipeline, whose workers share out the shards.

The workers open images and network themselves and write to the same folder, which all of them must see: storage that
they share, or a bucket.
"""

import contextlib
import io
import logging
import math
import re
import threading
from collections.abc import Iterator, Sequence

import apache_beam as beam
import numpy as np
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.utils.shared import Shared
from tqdm import tqdm

from lci_tf.data.source import Source
from lci_tf.errors import InputError
from lci_tf.serving import embedding
from lci_tf.serving.job import Job
from lci_tf.serving.shards import Shards

log = logging.getLogger("lci_tf")


def embed(job: Job, runner: str, options: Sequence[str] = ()) -> dict[str, int]:
    """As `embedding.embed`, by Beam.

    Args:
      runner: Beam's name of what runs pipelines, such as DirectRunner or DataflowRunner.
      options: flags of that runner.
    """
    pipeline = _pipeline(runner, options)
    source, _, work, shards = job.open()
    embedding.begin(shards.folder, work.protocol)
    if found := shards.summary():
        log.info("%s is finished", shards.folder)
        return found
    wanted = range(math.ceil(_count(source) / work.shard_size))
    missing = [shard for shard in wanted if not shards.is_there(shard)]
    # Each is reshuffled to whoever is idle, instead of staying where the list was made.
    pipeline | beam.Create(missing) | beam.Reshuffle() | beam.ParDo(_EmbedShard(job.from_anywhere(work)))
    with _progress(shards, wanted), _one_line_errors():
        pipeline.run().wait_until_finish()
    lost = [shard for shard in missing if not shards.is_there(shard)]
    if lost:
        raise InputError(f"--out_dir={shards.folder}: {len(lost):,} of {len(wanted):,} shards are not there, though "
                         "the workers have written them; do all machines see the same folder?")  # fmt: skip
    return shards.finish()


def _pipeline(runner, options):
    options = PipelineOptions(["--default_sdk_harness_log_level=WARNING", *options])
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            options.get_all_options()  # else they are read when it runs
        return beam.Pipeline(runner, options)
    except SystemExit:  # as of a command of Beam's own
        last = complaint.getvalue().splitlines()[-1]
        raise InputError(f"--runner_options: {last.partition('error: ')[2]}") from None
    except (ValueError, ImportError) as error:
        raise InputError(f"--runner={runner}: {' '.join(str(error).split())}") from None


class _EmbedShard(beam.DoFn):
    """Numbers of shards to nothing: what it makes is on disk."""

    def __init__(self, job: Job):
        self._job, self._shared = job, Shared()

    def setup(self):
        # One network for all threads of a worker.
        self._opened = self._shared.acquire(lambda: _Opened(self._job))

    def process(self, shard):
        embedding.embed_shard(*self._opened.parts, shard)


class _Opened:
    """What a job opens, in an object of its own: `Shared` cannot hold a tuple."""

    def __init__(self, job: Job):
        self.parts = job.open()
        _, _, work, shards = self.parts
        embedding.begin(shards.folder, work.protocol)  # a worker that sees other images is refused here


def _count(source: Source) -> int:
    if source.count is not None:
        return source.count
    log.info("counting the images of %s", source.name)
    return int(source.stream().reduce(np.int64(0), lambda count, _: count + 1))


@contextlib.contextmanager
def _progress(shards: Shards, wanted: Sequence[int]) -> Iterator[None]:
    """Looks which shards are there every few seconds: wherever they are made, that is where they come to."""
    waiting, done = [shard for shard in wanted if not shards.is_there(shard)], threading.Event()

    def watch():
        nonlocal waiting
        with tqdm(total=len(wanted), initial=len(wanted) - len(waiting), desc="embedding", unit=" shards") as bar:
            while True:
                is_last_look = done.wait(timeout=2)
                still = [shard for shard in waiting if not shards.is_there(shard)]
                bar.update(len(waiting) - len(still))
                waiting = still
                if is_last_look:
                    return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


@contextlib.contextmanager
def _one_line_errors() -> Iterator[None]:
    """A mistake of the user's that a worker met comes back as text, perhaps with all that called it."""
    logging.getLogger("apache_beam.runners.common").setLevel(logging.CRITICAL)  # which would tell it as well
    try:
        yield
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        met = re.search(rf"\b{InputError.__name__}: (.*?)(?: \[while running|\n|$)", told)
        if met is None:
            raise
        raise InputError(f"a worker of the pipeline: {met[1]}") from None
