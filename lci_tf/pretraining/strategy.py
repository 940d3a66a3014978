"""On what a training runs: this machine's devices, or several machines'."""

import functools
import json
import os

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


def _check_config(text):
    try:
        config = json.loads(text)
        config["cluster"], config["task"]["type"], config["task"]["index"]
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"TF_CONFIG: expected JSON with 'cluster' and 'task' (type, index), and got {text!r}"
        ) from error
