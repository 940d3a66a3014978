"""Where the time of a training step goes: to C, F, D, the transformations and the optimisers, forward and backward.

From TensorFlow's profiler, which times every operation, by the operations' names.
"""

import collections
import pathlib
import re
import tempfile
from collections.abc import Callable, Mapping

import tensorflow as tf

Part = tuple[str, str]  # what, and "forward" or "backward"; "" for what has no direction
OTHERS, OPTIMISERS, INPUT = "transformations, losses", "optimisers", "input"
_OPERATION = re.compile(r"([\w./-]+):(\w+)")  # as the profiler writes it: its name, and its type
_OF_OPTIMISER = re.compile(r"Adam\w*/")
_BACKWARD = "gradient_tape/"
_ADJOINTS = {"UnsortedSegmentSum"}  # of `transforms.lookup`, which has a gradient of its own


def seconds(step: Callable[[], object], networks: Mapping[str, str], times: int = 5) -> dict[Part, float]:
    """Seconds that the processor spends on each part in one step; several at a time add up.

    Args:
      step: makes a step and waits for it; it must have been traced before.
      networks: the names of the Keras models, and what to call them.
      times: of how many steps this is the mean.
    """
    with tempfile.TemporaryDirectory() as folder:
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=3, python_tracer_level=0)
        tf.profiler.experimental.start(folder, options)
        for _ in range(times):
            step()
        tf.profiler.experimental.stop()
        (profile,) = pathlib.Path(folder).rglob("*.xplane.pb")
        return {part: spent / times for part, spent in _read(profile, networks).items()}


def _read(profile, networks):
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace.FromString(profile.read_bytes())
    spent: dict[Part, float] = collections.Counter()
    for plane in space.planes:
        for event in (event for line in plane.lines for event in line.events):
            if operation := _OPERATION.fullmatch(plane.event_metadata[event.metadata_id].name):
                spent[part_of(operation[1], operation[2], networks)] += event.duration_ps * 1e-12
    return spent


def part_of(name: str, kind: str, networks: Mapping[str, str]) -> Part:
    """Which part of the step an operation belongs to, by its name and type."""
    if _OF_OPTIMISER.match(name):
        return OPTIMISERS, ""
    direction = "backward" if name.startswith(_BACKWARD) or kind in _ADJOINTS else "forward"
    network = name.removeprefix(_BACKWARD).split("/")[0]
    return networks.get(network, OTHERS), direction


def chart(spent: Mapping[Part, float]) -> str:
    """A bar for each part, the longest first, with its share of the whole."""
    whole, lines = sum(spent.values()), []
    for (what, direction), of_part in sorted(spent.items(), key=lambda item: -item[1]):
        share = of_part / whole
        lines.append(f"  {what:24s}{direction:9s} {share:6.1%}  {'█' * round(60 * share)}")
    return "\n".join(lines)
