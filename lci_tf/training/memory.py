"""Estimates the memory of a training before its first step, as the kernel silently kills what takes too much."""

import contextlib
import logging
import os
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import tensorflow as tf

from lci_tf.errors import InputError

log = logging.getLogger("lci_tf")
# Fitted to the peaks of three trainings of AlexNet on a CPU (x86-64, TensorFlow 2.15), to which it is within 5 %. For
# other networks and GPUs it is a guess.
_AT_REST = 0.75 * 2**30  # bytes for Python, TensorFlow and the pipeline
_PER_WEIGHT = 4.7  # bytes per byte of weights: itself, its gradient, two moments
_PER_ACTIVATION = 0.85  # bytes per byte of activations: not all are kept for the backward pass
_PASSED_ON = ("Identity", "IdentityN")  # operations that make nothing
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # version 2, version 1


class Estimate(NamedTuple):
    """Memory of this process in bytes: a fixed part, and a part per image of its share of the batch."""

    fixed: float
    per_image: float
    images: int

    @property
    def total(self) -> float:
        return self.fixed + self.images * self.per_image

    def __str__(self) -> str:
        return f"about {self.total / 2**30:.1f} GiB for a step, of {machine_has() / 2**30:.1f} GiB on this machine"


def estimate(
    seen: Mapping[tf.keras.Model, float], batch_size: int, strategy: tf.distribute.Strategy | None = None
) -> Estimate:
    """Estimates the memory of one process from the weights of networks and the shapes of their activations.

    Args:
      seen: the networks that are trained, and how many images each sees per image of a batch.
      batch_size: images per step, over all replicas.
      strategy: devices to train on; None for one.
    """
    weights = sum(weight.shape.num_elements() * weight.dtype.size for network in seen for weight in network.weights)
    activations = sum(images * _activations(network) for network, images in seen.items())
    images = batch_size
    if strategy is not None:
        images = batch_size * len(strategy.extended.worker_devices) // strategy.num_replicas_in_sync
    return Estimate(_AT_REST + _PER_WEIGHT * weights, _PER_ACTIVATION * activations, images)


def _activations(network):
    """Bytes of everything that a network computes from one image to its outputs."""
    image = tf.TensorSpec(network.input_shape)
    graph = tf.function(lambda images: network(images, training=False)).get_concrete_function(image).graph
    operations = (operation for operation in graph.get_operations() if operation.type not in _PASSED_ON)
    made = (tensor for operation in operations for tensor in operation.outputs)
    of_an_image = (t for t in made if t.shape.rank and t.shape[0] is None and t.shape[1:].is_fully_defined())
    return sum(tensor.shape[1:].num_elements() * tensor.dtype.size for tensor in of_an_image)


def require(needed: Estimate) -> None:
    """Refuses a training that can never fit into this machine; warns if too little memory is free now."""
    if tf.config.list_logical_devices("GPU"):
        return  # GPUs have their own memory, and report when it is full
    if needed.total > machine_has():
        fitting = int((machine_has() - needed.fixed) / needed.per_image)
        advice = f"about {fitting:,} images would fit" if fitting > 1 else "give a smaller --width or --crop_size"
        raise InputError(f"--batch_size={needed.images}: takes {needed}; {advice}")
    if needed.total > (free := _meminfo("MemAvailable")):
        log.warning("a step takes about %.1f GiB, but only %.1f GiB are free now; if the training is killed silently, "
                    "this is why: a smaller --batch_size needs less", needed.total / 2**30, free / 2**30)  # fmt: skip


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """Reports in one line that memory has run out after all."""
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise InputError(
            f"out of memory ({error.message.splitlines()[0]}); try a smaller --batch_size or --width, or "
            "--mixed_precision=bfloat16"
        ) from error


def machine_has() -> float:
    """The memory in bytes that this process can have: that of the machine, or the limit of its container."""
    limits = [pathlib.Path(path) for path in _CGROUP_LIMITS]
    given = [path.read_text().strip() for path in limits if path.is_file()]
    return min([_meminfo("MemTotal"), *(int(limit) for limit in given if limit.isdecimal())])


def _meminfo(name):
    meminfo = pathlib.Path("/proc/meminfo")
    if not meminfo.is_file():  # as on a Mac, which does not report free memory
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return int(re.findall(rf"^{name}:\s+(\d+) kB", meminfo.read_text(), re.MULTILINE)[0]) * 1024
