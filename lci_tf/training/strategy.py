"""Chooses the devices to train on, of one machine or several, as a `tf.distribute.Strategy`."""

import contextlib
import functools
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator

import tensorflow as tf

from lci_tf.errors import InputError
from lci_tf.runs import preemption


@functools.cache  # a second one on the same devices would number its collective operations from the start
def choose() -> tf.distribute.Strategy:
    """A strategy for all GPUs of this machine, or else its CPU; if `TF_CONFIG` is set, of all machines in it."""
    if "TF_CONFIG" in os.environ:
        _check_config(os.environ["TF_CONFIG"])
        try:
            return tf.distribute.MultiWorkerMirroredStrategy()
        except ValueError as error:  # such as a task that the cluster does not have
            raise InputError(f"TF_CONFIG: {' '.join(str(error).split())}") from error
        except tf.errors.OpError as error:  # such as when one that was lost comes back before the others have noticed
            why = str(error).splitlines()[0][:160]
            raise preemption.Preempted(f"the workers did not come together ({why}); start all of them again") from None
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    return tf.distribute.MirroredStrategy([device.name for device in devices])


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this is the process that writes files."""
    resolver = strategy.cluster_resolver
    return resolver is None or resolver.task_type is None or resolver.task_type == "chief" or (
        resolver.task_type == "worker" and resolver.task_id == 0 and "chief" not in resolver.cluster_spec().jobs
    )  # fmt: skip


def is_several_cpus(strategy: tf.distribute.Strategy) -> bool:
    return strategy.num_replicas_in_sync > 1 and not tf.config.list_logical_devices("GPU")


def any_of(strategy: tf.distribute.Strategy) -> Callable[[bool], bool] | None:
    """A function from this worker's answer to whether any worker answered yes the last time; None for a single worker.

    All workers call it after each step. Each call sends a message of four bytes, after those of the gradients, and
    reads that of the call before, so that nobody waits for the step that has just begun.
    """
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return None

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
    def total(mine):
        def add(value):
            here = tf.identity(value)  # an argument has no device, and a reduction must know one
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, here)

        return strategy.run(add, args=(mine,))

    under_way: list[tf.Tensor] = []

    def any_before(mine):
        under_way.append(strategy.experimental_local_results(total(tf.constant(float(mine))))[0])
        return len(under_way) > 1 and float(under_way.pop(0)) > 0

    return any_before


@contextlib.contextmanager
def ending_with_others(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """A context that ends this worker's part of shared work if another worker is lost, so that all can be restarted."""
    try:
        yield
    except tf.errors.OpError as error:
        told = re.search(
            r"(?:Collective ops is aborted by: |Connection reset|Socket closed|failed to connect).*", str(error)
        )
        if not (told and isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)):
            raise
        why = re.search(r"[^/]*task:\d+ [\w ]+", told[0])
        raise preemption.Preempted(
            f"another worker was lost ({(why or told)[0].strip()[:120]}); when all are started again, they go on from "
            "the last checkpoint"
        ) from None


def check_agreement(strategy: tf.distribute.Strategy, values: dict[str, object]) -> None:
    """Raises `InputError` on all workers if their values differ; `values` maps names, for the message, to values.

    Otherwise, workers would train networks that drift apart, or would wait for each other forever.
    """
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return
    digests = [zlib.crc32(str(value).encode()) for value in values.values()]

    def gather():
        mine = tf.constant([digests], tf.int64)
        return tf.distribute.get_replica_context().all_gather(mine, axis=0)

    gathered = tf.function(lambda: strategy.run(gather))()
    of_all = strategy.experimental_local_results(gathered)[0].numpy()
    differing = [name for name, column in zip(values, of_all.T, strict=True) if len(set(column)) > 1]
    if differing:
        raise InputError(f"TF_CONFIG: the workers do not agree on {', '.join(differing)}; all must have the same")


def _check_config(text):
    try:
        config = json.loads(text)
        config["cluster"], config["task"]["type"], config["task"]["index"]
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"TF_CONFIG: expected JSON with 'cluster' and 'task' (type, index), got {text!r}") from error
