"""On what a training runs: this machine's devices, or several machines'."""

import functools
import json
import os
import zlib

import tensorflow as tf

from lci_tf.errors import InputError


@functools.cache  # a second one on the same devices would number its collective operations from the start
def choose() -> tf.distribute.Strategy:
    """All GPUs of this machine, or its CPU; of all machines in `TF_CONFIG` if that is set."""
    if "TF_CONFIG" in os.environ:
        _check_config(os.environ["TF_CONFIG"])
        try:
            return tf.distribute.MultiWorkerMirroredStrategy()
        except ValueError as error:  # such as a task that the cluster does not have
            raise InputError(f"TF_CONFIG: {' '.join(str(error).split())}") from error
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    return tf.distribute.MirroredStrategy([device.name for device in devices])


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process is the one that writes files."""
    resolver = strategy.cluster_resolver
    return resolver is None or resolver.task_type is None or resolver.task_type == "chief" or (
        resolver.task_type == "worker" and resolver.task_id == 0 and "chief" not in resolver.cluster_spec().jobs
    )  # fmt: skip


def is_several_cpus(strategy: tf.distribute.Strategy) -> bool:
    return strategy.num_replicas_in_sync > 1 and not tf.config.list_logical_devices("GPU")


def check_agreement(strategy: tf.distribute.Strategy, values: dict[str, object]) -> None:
    """Raises `InputError`, on all workers, if they do not have the same values; the names are those in its message.

    Workers that differ would train networks that drift apart, or would wait for each other forever.
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
        raise InputError(
            f"TF_CONFIG: expected JSON with 'cluster' and 'task' (type, index), and got {text!r}"
        ) from error
