"""Counts the multiply-adds of a traced function: of its convolutions and matrix products, which are nearly all."""

import math

import tensorflow as tf

# Which input of an operation is the kernel, and which has the positions that it is applied to; -1 is what comes out.
_CONVOLUTIONS = {"Conv2D": (1, -1), "Conv2DBackpropInput": (1, 2), "Conv2DBackpropFilter": (-1, 2)}


def multiply_adds(function: tf.types.experimental.ConcreteFunction) -> int:
    """Of one call. Shapes must be known, and what the function calls must have been inlined, as Keras's layers are."""
    total = 0
    for operation in _needed(function):
        if operation.type in _CONVOLUTIONS:
            kernel, positions = (_tensor(operation, at).shape for at in _CONVOLUTIONS[operation.type])
            total += math.prod(kernel) * math.prod(positions[:3])
        elif operation.type == "MatMul":
            first, second = (tensor.shape for tensor in operation.inputs)
            common = first[0] if operation.get_attr("transpose_a") else first[1]
            total += math.prod(first) * math.prod(second) // common
    return total


def _needed(function):
    """What the function's results depend on: TensorFlow computes nothing else."""
    found, waiting = set(), [tensor.op for tensor in function.graph.outputs]
    while waiting:
        operation = waiting.pop()
        if operation not in found:
            found.add(operation)
            waiting += [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]
    return found


def _tensor(operation, at):
    return operation.outputs[0] if at == -1 else operation.inputs[at]
