"""Embeds images on many machines: `embedding.embed` as an Apache Beam pipeline, whose workers share the shards.

Each worker opens the images and the network itself, and writes to the same folder, which has to be on shared storage or
in a bucket.
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
_DASK = "apache_beam.runners.dask.dask_runner.DaskRunner"  # Beam has no shorter name for it


def embed(job: Job, runner: str, options: Sequence[str] = ()) -> dict[str, int]:
    """Does the same as `embedding.embed`, with Beam.

    Args:
      runner: Beam's name for a runner, such as DirectRunner or DataflowRunner; or DaskRunner.
      options: flags of that runner.
    """
    pipeline = _pipeline(runner, options)
    source, _, work, shards = job.open()
    embedding.begin(shards.folder, work.protocol)
    if found := shards.summary():
        log.info("%s is finished", shards.folder)
        return found
    shards.verify()
    count = _count(source)
    wanted = range(math.ceil(count / work.shard_size))
    missing = [(s, min(work.shard_size, count - s * work.shard_size)) for s in shards.missing(wanted)]
    # Reshuffled, so that shards go to idle workers instead of staying where the list was made.
    pipeline | beam.Create(missing) | beam.Reshuffle() | beam.ParDo(_EmbedShard(job.for_other_machines(work)))
    with _progress(shards, wanted), _one_line_errors():
        try:
            pipeline.run().wait_until_finish()
        except (ImportError, OSError) as error:  # the runner's packages or its cluster are missing
            raise InputError(f"--runner={runner}: {' '.join(str(error).split())}") from None
    if lost := shards.missing(wanted):
        raise InputError(f"--out_dir={shards.folder}: {len(lost):,} of {len(wanted):,} shards are missing, though "
                         "the pipeline has ended; do all machines see the same folder?")  # fmt: skip
    return shards.finish()


def _pipeline(runner, options):
    is_local, complaint = runner.lower() == "directrunner", io.StringIO()
    if is_local:
        options = ["--default_sdk_harness_log_level=ERROR", *options]  # workers log to this terminal
    if runner.lower() == "daskrunner":
        runner, options = _DASK, _dask_options(options)
    try:
        with contextlib.redirect_stderr(complaint):
            options = PipelineOptions(list(options))
            options.get_all_options()  # or they would be parsed only when it runs
        return beam.Pipeline(_local_runner(options) if is_local else runner, options)
    except SystemExit:  # Beam parses them like the flags of a command
        said = complaint.getvalue().partition("error: ")[2].strip() or "expected flags of the runner"
        raise InputError(f"--runner_options: {said}") from None
    except (ValueError, ImportError) as error:
        raise InputError(f"--runner={runner}: {' '.join(str(error).split())}") from None


def _dask_options(options):
    try:
        import dask.distributed  # noqa: F401
    except ImportError:
        raise InputError("--runner=DaskRunner: Dask is not installed; pip install 'lci_tf[dask]'") from None
    if not any(option.startswith(("--dask_npartitions", "--dask_partition_size")) for option in options):
        return ["--dask_partition_size=1", *options]  # one shard each; else Dask gives all to one worker
    return options


def _local_runner(options):
    """What DirectRunner used to be. By that name, Beam would download another program and run the pipeline in it."""
    passed_on = JobServiceHandle.encode_pipeline_options(options.get_all_options())
    return fn_runner.FnApiRunner(
        provision_info=fn_runner.ExtendedProvisionInfo(beam_provision_api_pb2.ProvisionInfo(pipeline_options=passed_on))
    )


class _EmbedShard(beam.DoFn):
    """Embeds one shard, given by its number and its number of images. Nothing is returned: the shard is on disk."""

    def __init__(self, job: Job):
        self._job, self._shared = job, Shared()

    def setup(self):
        # One network for all threads of a worker.
        self._opened = self._shared.acquire(lambda: _Opened(self._job))

    def process(self, element):
        embedding.embed_shard(*self._opened.parts, *element)


class _Opened:
    """What a job opens, as an object of our own, because `Shared` cannot hold a tuple."""

    def __init__(self, job: Job):
        self.parts = job.open()
        _, _, work, shards = self.parts
        embedding.begin(shards.folder, work.protocol)  # refuses a worker that sees other files


def _count(source: Source) -> int:
    if source.count is not None:
        return source.count
    log.info("counting the images of %s", source.name)
    return int(source.stream().reduce(np.int64(0), lambda count, _: count + 1))


@contextlib.contextmanager
def _progress(shards: Shards, wanted: Sequence[int]) -> Iterator[None]:
    """Shows progress by looking in the folder every few seconds, as shards may be made on any machine."""
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
    """Turns a user's mistake that a worker found, which arrives as text with a traceback, into an `InputError`."""
    beams_log = logging.getLogger("apache_beam.runners.common")
    level = beams_log.level
    beams_log.setLevel(logging.CRITICAL)  # which would report it too
    try:
        yield
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        found = re.search(rf"\b{InputError.__name__}: (.*?)(?: \[while running|\n|$)", text)
        if found is None:
            raise
        raise InputError(f"a worker of the pipeline: {found[1]}") from None
    finally:
        beams_log.setLevel(level)
