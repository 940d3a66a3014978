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
from apache_beam.portability.api import beam_provision_api_pb2
from apache_beam.runners.portability.fn_api_runner import fn_runner
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.utils.shared import Shared
from tqdm import tqdm

from lci_tf.data.source import Source
from lci_tf.embedding import embedding
from lci_tf.embedding.job import Job
from lci_tf.embedding.shards import Shards
from lci_tf.errors import InputError

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
    count = _count(source)
    wanted = range(math.ceil(count / work.shard_size))
    missing = [(s, min(work.shard_size, count - s * work.shard_size)) for s in shards.missing(wanted)]
    # Each is reshuffled to whoever is idle, instead of staying where the list was made.
    pipeline | beam.Create(missing) | beam.Reshuffle() | beam.ParDo(_EmbedShard(job.for_other_machines(work)))
    with _progress(shards, wanted), _one_line_errors():
        try:
            pipeline.run().wait_until_finish()
        except ImportError as error:  # of a runner whose packages are not there
            raise InputError(f"--runner={runner}: {' '.join(str(error).split())}") from None
    if lost := shards.missing(wanted):
        raise InputError(f"--out_dir={shards.folder}: {len(lost):,} of {len(wanted):,} shards are not there, though "
                         "the pipeline has ended; do all machines see the same folder?")  # fmt: skip
    return shards.finish()


def _pipeline(runner, options):
    is_local, complaint = runner.lower() == "directrunner", io.StringIO()
    if is_local:
        options = ["--default_sdk_harness_log_level=ERROR", *options]  # whatever they log ends up on this screen
    try:
        with contextlib.redirect_stderr(complaint):
            options = PipelineOptions(list(options))
            options.get_all_options()  # else they are read when it runs
        return beam.Pipeline(_local_runner(options) if is_local else runner, options)
    except SystemExit:  # as of a command of Beam's own
        said = complaint.getvalue().partition("error: ")[2].strip() or "expected flags of the runner"
        raise InputError(f"--runner_options: {said}") from None
    except (ValueError, ImportError) as error:
        raise InputError(f"--runner={runner}: {' '.join(str(error).split())}") from None


def _local_runner(options):
    """What DirectRunner was: by that name Beam would rather fetch a program from the network, and run all in there."""
    passed_on = JobServiceHandle.encode_pipeline_options(options.get_all_options())
    return fn_runner.FnApiRunner(
        provision_info=fn_runner.ExtendedProvisionInfo(beam_provision_api_pb2.ProvisionInfo(pipeline_options=passed_on))
    )


class _EmbedShard(beam.DoFn):
    """Numbers of shards, and of their images, to nothing: what it makes is on disk."""

    def __init__(self, job: Job):
        self._job, self._shared = job, Shared()

    def setup(self):
        # One network for all threads of a worker.
        self._opened = self._shared.acquire(lambda: _Opened(self._job))

    def process(self, element):
        embedding.embed_shard(*self._opened.parts, *element)


class _Opened:
    """What a job opens, in an object of its own: `Shared` cannot hold a tuple."""

    def __init__(self, job: Job):
        self.parts = job.open()
        _, _, work, shards = self.parts
        embedding.begin(shards.folder, work.protocol)  # a worker that sees other files is refused here


def _count(source: Source) -> int:
    if source.count is not None:
        return source.count
    log.info("counting the images of %s", source.name)
    return int(source.stream().reduce(np.int64(0), lambda count, _: count + 1))


@contextlib.contextmanager
def _progress(shards: Shards, wanted: Sequence[int]) -> Iterator[None]:
    """Looks which shards are there every few seconds: wherever they are made, that is where they come to."""
    waiting, done = shards.missing(wanted), threading.Event()

    def watch():
        nonlocal waiting
        with tqdm(total=len(wanted), initial=len(wanted) - len(waiting), desc="embedding", unit=" shards") as bar:
            while True:
                is_last_look = done.wait(timeout=2)
                still = shards.missing(waiting)
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
    beams_log = logging.getLogger("apache_beam.runners.common")
    level = beams_log.level
    beams_log.setLevel(logging.CRITICAL)  # it would tell it as well
    try:
        yield
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        met = re.search(rf"\b{InputError.__name__}: (.*?)(?: \[while running|\n|$)", told)
        if met is None:
            raise
        raise InputError(f"a worker of the pipeline: {met[1]}") from None
    finally:
        beams_log.setLevel(level)
