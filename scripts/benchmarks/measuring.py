"""What the benchmarks have in common: times of several things in turns, ratios, memory, and images to work on."""

import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

CROP, RESIZE, BATCH = 64, 96, 64
Times = dict[str, list[float]]


def compare_times(functions: dict[str, Callable], rounds: int = 31) -> Times:
    """Prints how long each takes. In turns, so that whatever else the machine does falls on all.

    Returns the seconds of every round, by name.
    """
    times: Times = {name: [] for name in functions}
    for _ in range(rounds + 3):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - start)
    times = {name: values[3:] for name, values in times.items()}  # tracing, and warming up
    for name, values in times.items():
        low, median, high = min(values), statistics.median(values), max(values)
        print(f"  {name:29s} {median * 1e3:7.1f} ms   (of {rounds} rounds {low * 1e3:.1f} to {high * 1e3:.1f})")
    return times


def print_ratio(times: Times) -> float:
    """How many times as long the last takes as the first: the median over rounds."""
    first, last = times
    ratio = statistics.median(b / a for a, b in zip(times[first], times[last], strict=True))
    print(f"  {last} / {first}: {ratio:.2f} (median of the rounds)")
    return ratio


def in_own_process(module: str, function: str, *arguments: object, **environment: str) -> str:
    """Calls `benchmarks.MODULE.FUNCTION(*arguments)` in a process of its own, prints and returns what it prints."""
    code = f"import sys; from benchmarks import {module}; {module}.{function}(*sys.argv[1:])"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    paths = os.pathsep.join(sys.path[:2])
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True,
                         env={**os.environ, "PYTHONPATH": paths, **environment})  # fmt: skip
    print(ran.stdout, end="", flush=True)
    return ran.stdout


def peak_memory() -> float:
    """Megabytes of resident memory that this process has had at most."""
    # Not getrusage, whose peak a process inherits from the one that started it.
    status = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) / 1024


def write_jpegs(folder: pathlib.Path, count: int, side: int = 96) -> pathlib.Path:
    """Scenes of the embedded data set as JPEGs of `side` pixels."""
    from PIL import Image

    from lci_tf.data.sets import synthetic

    source = synthetic.find(None)["train"]()
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        image = Image.fromarray(source.pixels[i]).resize((side, side), Image.Resampling.BICUBIC)
        image.save(folder / f"{i:05d}.jpg", quality=90)
    return folder


def link_many(file: pathlib.Path, folder: pathlib.Path, count: int) -> pathlib.Path:
    """A folder of `count` links to one file."""
    folder.mkdir()
    for i in range(count):
        os.link(file, folder / f"{i}.jpg")
    return folder


def decoded(contents: list[bytes]):
    """Bare decoding: a data set of whole images."""
    import tensorflow as tf

    def decode(content):
        return tf.io.decode_jpeg(content, channels=3, dct_method="INTEGER_ACCURATE")

    return tf.data.Dataset.from_tensor_slices(contents).map(decode, num_parallel_calls=tf.data.AUTOTUNE)
