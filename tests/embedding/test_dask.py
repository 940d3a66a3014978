"""By a real cluster: a scheduler and two workers, one of which is killed."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("dask.distributed", reason="needs pip install lci_tf[dask]")

from dask import distributed

from lci_tf.embedding import beam_pipeline

ROOT = pathlib.Path(__file__).parents[2]


def start(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_NUM_INTRAOP_THREADS": "1"}
    return subprocess.Popen([sys.executable, *map(str, arguments)], cwd=ROOT, env=environment, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip


@pytest.fixture
def cluster(tmp_path):
    """The file by which its scheduler is found, and the processes of its workers."""
    file, dask = tmp_path / "scheduler.json", ("-m", "distributed.cli.dask_scheduler")
    processes = [start(*dask, "--port=0", "--no-dashboard", "--host=localhost", f"--scheduler-file={file}")]
    while not file.exists():
        assert processes[0].poll() is None, processes[0].communicate()
        time.sleep(0.1)
    for _ in range(2):
        alone = ("--nthreads=1", "--no-nanny", "--no-dashboard", f"--local-directory={tmp_path / 'dask'}")
        processes.append(start("-m", "distributed.cli.dask_worker", f"--scheduler-file={file}", *alone))
    with distributed.Client(scheduler_file=str(file)) as client:
        client.wait_for_workers(2, timeout=120)
    yield file, processes[1:]
    for process in reversed(processes):
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_worker_is_killed_and_nothing_is_lost(cluster, export_dir, photos, tmp_path):
    scheduler_file, workers = cluster
    images, many = sorted(photos.iterdir()), tmp_path / "many"
    many.mkdir()
    for i in range(1_500):
        os.link(images[i % len(images)], many / f"{i:04d}{images[i % len(images)].suffix}")

    def embed(folder, *more):
        data = ["--dataset=folder", f"--data_dir={many}", f"--model={export_dir}", f"--out_dir={folder}"]
        return start("-m", "lci_tf.embed", *data, "--batch_size=2", "--shard_size=50", "--format=npy", *more)

    _, errors = (plain := embed(tmp_path / "plain")).communicate()
    assert plain.returncode == 0, errors
    folder = tmp_path / "shared"
    process = embed(folder, "--runner=DaskRunner", f"--runner_options=--dask_scheduler_file={scheduler_file}")

    def both_are_at_work():
        return len({p.name.split(".")[1] for p in folder.glob(".features-*.new")}) == 2

    end = time.monotonic() + 280
    while not (folder.exists() and both_are_at_work()):
        assert process.poll() is None and time.monotonic() < end, process.communicate()
        time.sleep(0.01)
    workers[0].send_signal(signal.SIGKILL)
    output, errors = process.communicate(timeout=280)
    assert process.returncode == 0 and "Features of 1,500 images" in output, errors
    assert workers[0].wait() == -signal.SIGKILL and workers[1].poll() is None
    found, expected = (np.load(place / "embedding.npy") for place in (folder, tmp_path / "plain"))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert (folder / "paths.txt").read_text() == (tmp_path / "plain" / "paths.txt").read_text()
    assert {p.name for p in folder.iterdir()} == {p.name for p in (tmp_path / "plain").iterdir()}


def test_every_shard_is_a_task_of_its_own_unless_told_otherwise():
    assert beam_pipeline._dask_options([]) == ["--dask_partition_size=1"]
    for own in (["--dask_npartitions=7"], ["--dask_partition_size=3"]):
        assert beam_pipeline._dask_options(own) == own


def test_without_dask(monkeypatch, refusal):
    monkeypatch.setitem(sys.modules, "dask.distributed", None)
    assert refusal(beam_pipeline._pipeline, "DaskRunner", []) == (
        "--runner=DaskRunner: Dask is not installed; pip install 'lci_tf[dask]'"
    )
