"""What of a traced function a GPU would leave to the host: asked of TensorFlow's registry of kernels, without a GPU.

The wheels for Linux register the kernels of GPUs on every machine. A kernel may have some of its arguments in the
host's memory: shapes and axes, which do no harm, but also data, as with most of the arithmetic of int32. Then the host
waits for the GPU, or computes what the GPU should.
"""

import enum
import functools
from collections.abc import Iterator, Sequence

import tensorflow as tf
from tensorflow.python.framework import function_def_to_graph, kernels


class _Place(enum.Enum):
    """Where the values of a tensor come from."""

    CONSTANT = "known before the step begins, as shapes are"
    HOST = "the host's memory"
    DEVICE = "the GPU's memory"


_OF_SHAPES = {"Shape", "ShapeN", "Size", "Rank"}  # they do not look at the values
_CALLS = {"PartitionedCall": ("f",), "StatefulPartitionedCall": ("f",), "If": ("then_branch", "else_branch"),
          "StatelessIf": ("then_branch", "else_branch"), "While": ("cond", "body"),
          "StatelessWhile": ("cond", "body")}  # fmt: skip
"""Which attributes name the functions that an operation calls."""


def are_registered() -> bool:
    """Whether this build of TensorFlow has kernels for GPUs at all."""
    return any(kernel.device_type == "GPU" for kernel in _registered("MatMul"))


def left_to_host(function: tf.types.experimental.ConcreteFunction) -> list[str]:
    """The operations that a GPU would leave to the host, or for which the host would wait, in the graph's order."""
    graph = function.graph
    library = {made.signature.name: made for made in graph.as_graph_def().library.function}
    found, _ = _follow(graph, [_Place.DEVICE] * len(graph.inputs), graph.inputs, library)
    return found


def _follow(graph, places, inputs, library) -> tuple[list[str], dict]:
    """What is left to the host in a graph whose inputs are at these places, and the place of each tensor."""
    found, of = [], {tensor.ref(): place for tensor, place in zip(inputs, places, strict=True)}
    for operation in graph.get_operations():
        if operation.type in ("Placeholder", "_Arg", "NoOp"):
            continue
        given = [of.get(tensor.ref(), _Place.DEVICE) for tensor in operation.inputs]
        if operation.type in _OF_SHAPES or (set(given) <= {_Place.CONSTANT} and _is_pure(operation)):
            of.update({tensor.ref(): _Place.CONSTANT for tensor in operation.outputs})
            continue
        kernel = _kernel(operation)
        if kernel is None:
            found.append(f"{_described(operation)} has no kernel for GPUs")
            of.update({tensor.ref(): _Place.HOST for tensor in operation.outputs})
            continue
        in_host_memory = set(kernel.host_memory_arg)
        found += [
            f"{_described(operation)} takes {name} from the GPU to the host"
            for name, tensor, place in zip(_names(operation, "input"), operation.inputs, given, strict=True)
            if name in in_host_memory and place == _Place.DEVICE and not _is_handle(tensor)
        ]
        for name, tensor in zip(_names(operation, "output"), operation.outputs, strict=True):
            of[tensor.ref()] = _Place.HOST if name in in_host_memory else _Place.DEVICE
        made = [of[tensor.ref()] for tensor in operation.outputs if not _is_handle(tensor)]
        if made and all(place == _Place.HOST for place in made):
            found.append(f"{_described(operation)} is computed on the host")
        for attribute in _CALLS.get(operation.type, ()):
            called = function_def_to_graph.function_def_to_graph(library[operation.get_attr(attribute).name])
            its_inputs = given[len(given) - len(called.inputs) :]  # the first of If is the condition
            found += _follow(called, its_inputs, called.inputs, library)[0]
    return found, of


def _is_pure(operation):
    """Whether the same constants always give the same: then it is computed once, when the graph is optimised."""
    return not operation.op_def.is_stateful and not any(map(_is_handle, operation.outputs))


def _is_handle(tensor):
    """Handles of variables are in the host's memory; what they refer to need not be."""
    return tensor.dtype in (tf.resource, tf.variant)


def _described(operation):
    types = [operation.get_attr(a.name).name for a in operation.op_def.attr if a.type == "type"]
    return f"{operation.type} of {', '.join(types) or 'any type'} ({operation.name})"


@functools.cache
def _registered(kind) -> Sequence:
    return kernels.get_registered_kernels_for_op(kind).kernel


def _kernel(operation):
    """The kernel that a GPU would use for an operation with its types, or None."""
    fitting = [kernel for kernel in _registered(operation.type) if _fits(kernel, operation)]
    for device in ("GPU", "DEFAULT"):  # the latter is for all devices that have none of their own
        of_device = [kernel for kernel in fitting if kernel.device_type == device]
        if of_device:
            return max(of_device, key=lambda kernel: kernel.priority)
    return None


def _fits(kernel, operation):
    if kernel.label:  # of kernels that must be asked for
        return False
    for constraint in kernel.constraint:
        value, allowed = operation.get_attr(constraint.name), constraint.allowed_values.list
        for one in value if isinstance(value, list) else [value]:
            if (one.as_datatype_enum not in allowed.type) if isinstance(one, tf.DType) else (one not in allowed.s):
                return False
    return True


def _names(operation, which) -> Iterator[str]:
    """The name of the argument to which each input or output belongs: lists of tensors have one for all."""
    for argument in getattr(operation.op_def, f"{which}_arg"):
        count = 1
        if argument.number_attr:
            count = operation.get_attr(argument.number_attr)
        elif argument.type_list_attr:
            count = len(operation.get_attr(argument.type_list_attr))
        yield from [argument.name] * count
