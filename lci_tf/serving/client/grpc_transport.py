"""One request to TF Serving by gRPC."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from lci_tf.errors import InputError
from lci_tf.serving.client import metadata
from lci_tf.serving.client.metadata import Signature
from lci_tf.serving.client.retries import ServerError
from lci_tf.serving.export.signatures import BYTES, BYTES_INPUT

_PER_IMAGE = 8  # bytes around an image: its tag, and its length


class GrpcTransport:
    """Sends requests to one model on a server; thread-safe.

    Args:
      address: HOST:PORT.
      model_name: as the server calls it.
    """

    def __init__(self, address: str, model_name: str):
        try:
            import grpc
            from tensorflow_serving.apis import get_model_metadata_pb2, predict_pb2, prediction_service_pb2_grpc
        except ImportError as error:
            raise InputError(
                f"--server={address}: gRPC needs tensorflow-serving-api (pip install lci_tf[serving]); "
                "http://HOST:PORT asks by REST without it"
            ) from error
        self._failure, self._metadata, self._predict = grpc.RpcError, get_model_metadata_pb2, predict_pb2
        self._model_name = model_name
        self._channel = grpc.insecure_channel(
            address,
            options=[
                ("grpc.max_receive_message_length", -1),  # maps of many images are large
                ("grpc.initial_reconnect_backoff_ms", 100),  # how long to wait is decided in `retries`
                ("grpc.max_reconnect_backoff_ms", 1000),
            ],
        )
        self._service = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)

    def size(self, content: bytes) -> int:
        """How many bytes an image takes in a request."""
        return len(content) + _PER_IMAGE

    def signature(self, seconds: float) -> Signature:
        """Of the model's version that is served now."""
        request = self._metadata.GetModelMetadataRequest(metadata_field=["signature_def"])
        request.model_spec.name = self._model_name
        answer = self._call(self._service.GetModelMetadata, request, seconds)
        signatures = self._metadata.SignatureDefMap()
        answer.metadata["signature_def"].Unpack(signatures)
        return metadata.from_proto(answer.model_spec.version.value, signatures.signature_def[BYTES])

    def predict(
        self, contents: Sequence[bytes], outputs: Sequence[str], served: Signature, seconds: float
    ) -> dict[str, np.ndarray]:
        """What the version served gives for encoded images, by the names of its outputs."""
        request = self._predict.PredictRequest(output_filter=outputs)
        request.model_spec.name, request.model_spec.signature_name = self._model_name, BYTES
        request.model_spec.version.value = served.version
        tensor = tf.make_tensor_proto(contents, tf.string, [len(contents)])
        request.inputs[BYTES_INPUT].CopyFrom(tensor)
        answer = self._call(self._service.Predict, request, seconds)
        return {name: tf.make_ndarray(tensor) for name, tensor in answer.outputs.items()}

    def _call(self, method, request, seconds):
        try:
            return method(request, timeout=seconds)
        except self._failure as error:
            raise ServerError(error.code().name, error.details() or "") from error

    def close(self) -> None:
        self._channel.close()
