"""What TF Serving enforces. The stand-in and the real server are held to the same."""

import base64
import json
import urllib.error

import numpy as np
import pytest
import tensorflow as tf

pytest.importorskip("tensorflow_serving", reason="needs pip install lci_tf[serving]")

import grpc
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_log_pb2,
    prediction_service_pb2_grpc,
)

from lci_tf.serving.export import warmup


@pytest.fixture
def ask(server):
    """Predicts by gRPC. Returns the answer's outputs, or the failure."""
    channel = grpc.insecure_channel(server.grpc)

    def ask(inputs, name="features", signature="", outputs=(), version=None):
        request = predict_pb2.PredictRequest(output_filter=outputs)
        request.model_spec.name, request.model_spec.signature_name = name, signature
        if version:
            request.model_spec.version.value = version
        for alias, value in inputs.items():
            request.inputs[alias].CopyFrom(tf.make_tensor_proto(value))
        try:
            answer = prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(request, timeout=60)
            return {alias: tf.make_ndarray(value) for alias, value in answer.outputs.items()}
        except grpc.RpcError as failure:
            return failure

    yield ask
    channel.close()


@pytest.fixture(scope="module")
def png():
    return tf.io.encode_png(np.random.default_rng(0).integers(0, 256, [40, 50, 3], np.uint8)).numpy()


def test_by_grpc_from_bytes_and_from_pixels(ask, png):
    of_bytes = ask({"image_bytes": [png]})
    of_pixels = ask({"images": tf.io.decode_png(png)[tf.newaxis]}, signature="images", version=1)
    assert set(of_bytes) == set(of_pixels) == {"embedding", "transformation"}
    np.testing.assert_allclose(of_bytes["embedding"], of_pixels["embedding"], atol=1e-5)
    assert set(ask({"image_bytes": [png]}, outputs=["transformation"])) == {"transformation"}


REFUSED = {
    "another model": ({"name": "others"}, "NOT_FOUND", "Servable not found for request: Latest(others)"),
    "another version": ({"version": 7}, "NOT_FOUND", "Servable not found for request: Specific(features, 7)"),
    "another signature": ({"signature": "none"}, "FAILED_PRECONDITION", 'Serving signature key "none" not found'),
    "no input": ({"inputs": {}}, "INVALID_ARGUMENT", "Missing but required: {image_bytes}"),
    "an input too many": ({"inputs": {"image_bytes": [b""], "x": [1]}}, "INVALID_ARGUMENT", "Sent extra: {x}"),
    "another input": ({"inputs": {"x": [b""]}}, "INVALID_ARGUMENT", ""),
    "another type": ({"inputs": {"image_bytes": [1.0]}}, "INVALID_ARGUMENT", ""),
    "another shape": ({"inputs": {"image_bytes": [[b"a", b"b"]]}}, "INVALID_ARGUMENT", ""),
    "another output": ({"outputs": ["conv9"]}, "INVALID_ARGUMENT", "output tensor alias not found in signature: conv9"),
    "an output twice": ({"outputs": ["embedding"] * 2}, "INVALID_ARGUMENT", "duplicate output tensor alias"),
    "no image": ({"inputs": {"image_bytes": [b"bad"]}}, "INVALID_ARGUMENT", "no readable JPEG, PNG, BMP or GIF at"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_refused_by_grpc(ask, png, what):
    changed, code, message = REFUSED[what]
    failure = ask(**{"inputs": {"image_bytes": [png]}, **changed})
    assert failure.code().name == code and message in failure.details()


def test_messages_are_cut_off(ask):
    failure = ask({"x" * 2000: [1], "y": [2]})
    assert failure.details().endswith("...TRUNCATED") and len(failure.details()) == 1024 + len("...TRUNCATED")


def test_status(server):
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "features"
    with grpc.insecure_channel(server.grpc) as channel:
        answer = model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus(request, timeout=60)
    (status,) = answer.model_version_status
    assert status.version == 1 and status.state == get_model_status_pb2.ModelVersionStatus.AVAILABLE
    (by_rest,) = server.get("/v1/models/features")["model_version_status"]
    assert by_rest["version"] == "1" and by_rest["state"] == "AVAILABLE"


def test_by_rest(server, ask, png):
    expected = ask({"image_bytes": [png, png]})
    for instance in ({"b64": base64.b64encode(png).decode()}, {"image_bytes": {"b64": base64.b64encode(png).decode()}}):
        answer = server.post("/v1/models/features:predict", {"instances": [instance] * 2})
        for name, rows in expected.items():
            np.testing.assert_allclose([row[name] for row in answer["predictions"]], rows, atol=1e-6)
    pixels = {"signature_name": "images", "instances": tf.io.decode_png(png)[tf.newaxis].numpy().tolist()}
    (row,) = server.post("/v1/models/features/versions/1:predict", pixels)["predictions"]
    np.testing.assert_allclose(row["embedding"], expected["embedding"][0], atol=1e-5)
    signatures = server.get("/v1/models/features/metadata")["metadata"]["signature_def"]["signature_def"]
    assert signatures["serving_default"]["inputs"]["image_bytes"]["dtype"] == "DT_STRING"
    assert signatures["images"]["inputs"]["images"]["tensor_shape"]["dim"][3]["size"] == "3"


ONE = {"b64": ""}
NOT_BY_REST = {
    "another model": ("/v1/models/others:predict", {"instances": [ONE]}, 404),
    "another version": ("/v1/models/features/versions/7:predict", {"instances": [ONE]}, 404),
    "another signature": ("/v1/models/features:predict", {"signature_name": "none", "instances": [ONE]}, 400),
    "no images": ("/v1/models/features:predict", {}, 400),
    "another type": ("/v1/models/features:predict", {"instances": [1.5]}, 400),
    "no image": ("/v1/models/features:predict", {"instances": [ONE]}, 400),
    "another path": ("/v1/features", {}, 400),
}


@pytest.mark.parametrize("what", NOT_BY_REST)
def test_refused_by_rest(server, what):
    path, body, code = NOT_BY_REST[what]
    with pytest.raises(urllib.error.HTTPError) as caught:
        server.post(path, body)
    assert caught.value.code == code
    assert set(json.loads(caught.value.read())) == {"error"}


def test_warm_up_requests_are_answered(server, export_dir):
    records = list(tf.data.TFRecordDataset(str(export_dir / "1" / warmup.FILE)).as_numpy_iterator())
    assert len(records) == 2
    with grpc.insecure_channel(server.grpc) as channel:
        predict = prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict
        for record in records:
            request = prediction_log_pb2.PredictionLog.FromString(record).predict_log.request
            request.model_spec.name = "features"
            assert "embedding" in predict(request, timeout=60).outputs
