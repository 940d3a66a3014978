"""Inputs and outputs of a served model, as the server reports them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Signature:
    """The signature of one version of a model."""

    version: int
    inputs: Mapping[str, tf.TensorSpec]
    outputs: Mapping[str, tf.TensorSpec]


def from_proto(version: int, signature: Any) -> Signature:
    """From a `SignatureDef`."""

    def specs(tensors):
        return {name: tf.TensorSpec(info.tensor_shape, info.dtype) for name, info in sorted(tensors.items())}

    return Signature(version, specs(signature.inputs), specs(signature.outputs))


def from_json(version: int, signature: Mapping[str, Any]) -> Signature:
    """From a `SignatureDef` as the REST interface writes it."""

    def spec(info):
        shape = info.get("tensor_shape", {})
        sides = None if shape.get("unknown_rank") else [int(side["size"]) for side in shape.get("dim", [])]
        known = None if sides is None else [None if side < 0 else side for side in sides]
        return tf.TensorSpec(known, info["dtype"].removeprefix("DT_").lower())

    def specs(tensors):
        return {name: spec(info) for name, info in sorted(tensors.items())}

    return Signature(version, specs(signature.get("inputs", {})), specs(signature.get("outputs", {})))
