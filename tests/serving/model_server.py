"""Stands for TF Serving's `tensorflow_model_server` in the tests: its protocol, over a real export, in its own process.

    python -I model_server.py NAME=EXPORT_DIR ...

It prints its two ports as a line of JSON, and ends when its standard input does.

What it has in common with TF Serving: the published gRPC stubs (Predict, GetModelMetadata, GetModelStatus) and the REST
paths for predict, metadata and status; the SavedModel run by a session without any Python of its own; the highest
version of each model, found when it starts; TF Serving's checks of model, version, signature, input names, types,
shapes and output names, in its order, with its status codes and nearly its words; messages cut off at 1,024 bytes by
gRPC, and HTTP codes and `{"error": …}` by REST.

What it does not do: later versions, version labels, batching of its own, Classify, Regress and MultiInference, REST's
columnar format (`inputs`), gRPC over TLS. It checks shapes before it runs the graph, which in TF Serving fails there.

What TF Serving cannot do: POST /stand_in {"fail": [[CODE, MESSAGE], …], "delay": SECONDS, "lose": OUTPUT,
"company": [base64, …]} makes the next requests fail, all of them slow, an output disappear, or puts images of somebody
else in front of those of the next request, as batching does. GET /stand_in tells how many requests there were, how many
at once, the size of the largest, and the versions that were asked for.
"""

import base64
import concurrent.futures
import contextlib
import http.server
import json
import pathlib
import re
import sys
import threading
import time
import urllib.parse

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf import json_format
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

HTTP = {"INVALID_ARGUMENT": 400, "FAILED_PRECONDITION": 400, "OUT_OF_RANGE": 400, "NOT_FOUND": 404,
        "RESOURCE_EXHAUSTED": 429, "UNIMPLEMENTED": 501, "UNAVAILABLE": 503, "DEADLINE_EXCEEDED": 504}  # fmt: skip


class Refused(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code, self.message = code, message


class Model:
    """The highest version of an export."""

    def __init__(self, export_dir):
        self.version = max(int(path.name) for path in pathlib.Path(export_dir).iterdir() if path.name.isdecimal())
        graph = tf.Graph()
        self._session = tf.compat.v1.Session(graph=graph)
        with graph.as_default():
            loaded = tf.compat.v1.saved_model.load(self._session, ["serve"], f"{export_dir}/{self.version}")
        self.signatures = loaded.signature_def

    def predict(self, request):
        """Outputs by name, in the order of TF Serving's `RunPredict`."""
        name = request.model_spec.signature_name or "serving_default"
        if name not in self.signatures:
            raise Refused("FAILED_PRECONDITION", f'Serving signature key "{name}" not found.')
        signature = self.signatures[name]
        given, expected = sorted(request.inputs), sorted(signature.inputs)
        if len(given) != len(expected):
            extra, missing = sorted(set(given) - set(expected)), sorted(set(expected) - set(given))
            raise Refused(
                "INVALID_ARGUMENT",
                f"input size does not match signature: {len(given)}!={len(expected)} len({{{','.join(given)}}}) != "
                f"len({{{','.join(expected)}}}). Sent extra: {{{','.join(extra)}}}. Missing but required: "
                f"{{{','.join(missing)}}}.",
            )
        feeds = {}
        for i, (alias, tensor) in enumerate(request.inputs.items()):
            if alias not in expected:
                raise Refused(
                    "INVALID_ARGUMENT",
                    f"input tensor alias not found in signature: {alias}. Inputs expected to be in the set "
                    f"{{{','.join(expected)}}}.",
                )
            feeds[signature.inputs[alias].name] = self._value(i, tensor, signature.inputs[alias])
        outputs = list(request.output_filter) or sorted(signature.outputs)
        for i, alias in enumerate(outputs):
            if alias not in signature.outputs:
                raise Refused(
                    "INVALID_ARGUMENT",
                    f"output tensor alias not found in signature: {alias} Outputs expected to be in the set "
                    f"{{{','.join(sorted(signature.outputs))}}}.",
                )
            if alias in outputs[:i]:
                raise Refused("INVALID_ARGUMENT", f"duplicate output tensor alias: {alias}")
        try:
            values = self._session.run([signature.outputs[alias].name for alias in outputs], feeds)
        except tf.errors.OpError as error:
            raise Refused(grpc_code(error.error_code).name, error.message) from error
        return dict(zip(outputs, values, strict=True))

    @staticmethod
    def _value(i, tensor, info):
        asked, came = tf.as_dtype(info.dtype).name, tf.as_dtype(tensor.dtype).name
        if asked != came:
            raise Refused("INVALID_ARGUMENT", f"Expects arg[{i}] to be {asked} but {came} is provided")
        try:
            value = tf.make_ndarray(tensor)
        except ValueError as error:
            raise Refused("INVALID_ARGUMENT", f"tensor parsing error: {info.name}") from error
        if not tf.TensorShape(info.tensor_shape).is_compatible_with(value.shape):
            raise Refused("INVALID_ARGUMENT", f"{info.name}: cannot take a value of shape {list(value.shape)}")
        return value


def grpc_code(number):
    return next(code for code in grpc.StatusCode if code.value[0] == number)


class Trouble:
    """What the tests ask for beside answers, and what they ask about afterwards."""

    def __init__(self, asked):
        self._fail, self._delay, self._lose = asked.get("fail", []), asked.get("delay", 0), asked.get("lose")
        self._company = [base64.b64decode(content) for content in asked.get("company", [])]
        self._lock, self._running = threading.Lock(), 0
        self.seen = {"requests": 0, "at_once": 0, "largest": 0, "versions": []}

    def predict(self, model, request, size):
        with self._lock:
            self._running += 1
            self.seen["requests"] += 1
            self.seen["at_once"] = max(self.seen["at_once"], self._running)
            self.seen["largest"] = max(self.seen["largest"], size)
            self.seen["versions"].append(request.model_spec.version.value)
            failure = self._fail.pop(0) if self._fail else None
            company, self._company = self._company, []
        try:
            time.sleep(self._delay)
            if failure:
                raise Refused(*failure)
            return self._predict(model, request, company)
        finally:
            with self._lock:
                self._running -= 1

    def _predict(self, model, request, company):
        if company:
            (alias,) = request.inputs
            merged = company + list(request.inputs[alias].string_val)
            request.inputs[alias].CopyFrom(tf.make_tensor_proto(merged, tf.string, [len(merged)]))
        outputs = {name: value[len(company) :] for name, value in model.predict(request).items()}
        outputs.pop(self._lose, None)
        return outputs


class Server:
    def __init__(self, models):
        self.models, self.trouble = models, Trouble({})

    def model(self, spec):
        model, wanted = self.models.get(spec.name), spec.version.value if spec.HasField("version") else None
        if model is None or wanted not in (None, model.version):
            which = f"Latest({spec.name})" if wanted is None else f"Specific({spec.name}, {wanted})"
            raise Refused("NOT_FOUND", f"Servable not found for request: {which}")
        return model

    def predict(self, request, size):
        return self.trouble.predict(self.model(request.model_spec), request, size)

    def metadata(self, spec):
        model = self.model(spec)
        answer = get_model_metadata_pb2.GetModelMetadataResponse()
        answer.model_spec.name, answer.model_spec.version.value = spec.name, model.version
        return answer, get_model_metadata_pb2.SignatureDefMap(signature_def=model.signatures)

    def status(self, spec):
        if spec.name not in self.models:
            raise Refused("NOT_FOUND", f"Could not find any versions of model {spec.name}")
        version = self.models[spec.name].version
        if spec.HasField("version") and spec.version.value != version:
            raise Refused("NOT_FOUND", f"Could not find version {spec.version.value} of model {spec.name}")
        answer = get_model_status_pb2.GetModelStatusResponse()
        answer.model_version_status.add(version=version, state="AVAILABLE")
        return answer


class Grpc(prediction_service_pb2_grpc.PredictionServiceServicer, model_service_pb2_grpc.ModelServiceServicer):
    def __init__(self, server):
        self._server = server

    @staticmethod
    @contextlib.contextmanager
    def _statuses(context):
        try:
            yield
        except Refused as refused:
            message = refused.message if len(refused.message) <= 1024 else refused.message[:1024] + "...TRUNCATED"
            context.abort(grpc.StatusCode[refused.code], message)

    def Predict(self, request, context):
        with self._statuses(context):
            outputs = self._server.predict(request, request.ByteSize())
            answer = predict_pb2.PredictResponse(model_spec=request.model_spec)
            for name, value in outputs.items():
                answer.outputs[name].CopyFrom(tf.make_tensor_proto(value))
            return answer

    def GetModelMetadata(self, request, context):
        with self._statuses(context):
            if list(request.metadata_field) != ["signature_def"]:
                raise Refused("INVALID_ARGUMENT", f"Metadata field {request.metadata_field} is not supported")
            answer, signatures = self._server.metadata(request.model_spec)
            answer.metadata["signature_def"].Pack(signatures)
            return answer

    def GetModelStatus(self, request, context):
        with self._statuses(context):
            return self._server.status(request.model_spec)


class Rest(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    models: Server

    def do_GET(self):
        self._answer(self._get)

    def do_POST(self):
        self._answer(self._post)

    def _get(self):
        if self.path == "/stand_in":
            return self.models.trouble.seen
        request, wants_metadata = self._request(r"/v1/models/([^/:]+)(?:/versions/(\d+))?(/metadata)?")
        if not wants_metadata:
            return _json(self.models.status(request.model_spec))
        answer, signatures = self.models.metadata(request.model_spec)
        return {**_json(answer), "metadata": {"signature_def": _json(signatures)}}

    def _post(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/stand_in":
            self.models.trouble = Trouble(json.loads(body))
            return {}
        request, _ = self._request(r"/v1/models/([^/:]+)(?:/versions/(\d+))?:(predict)")
        try:
            self._fill(request, json.loads(body))
        except json.JSONDecodeError as error:
            raise Refused("INVALID_ARGUMENT", f"JSON Parse error: {error.msg} at offset: {error.pos}") from error
        outputs = self.models.predict(request, len(body))
        text = {name: value.astype(str) for name, value in outputs.items() if value.dtype == object}
        outputs = {name: value.tolist() for name, value in {**outputs, **text}.items()}
        if len(outputs) == 1:
            return {"predictions": next(iter(outputs.values()))}
        return {"predictions": [dict(zip(outputs, row, strict=True)) for row in zip(*outputs.values(), strict=True)]}

    def _request(self, pattern):
        found = re.fullmatch(pattern, self.path, re.IGNORECASE)
        if not found:
            raise Refused("INVALID_ARGUMENT", f"Malformed request: {self.command} {self.path}")
        request = predict_pb2.PredictRequest()
        request.model_spec.name = urllib.parse.unquote(found.group(1))
        if found.group(2):
            request.model_spec.version.value = int(found.group(2))
        return request, found.group(3)

    def _fill(self, request, body):
        request.model_spec.signature_name = body.get("signature_name", "")
        name = request.model_spec.signature_name or "serving_default"
        signatures = self.models.model(request.model_spec).signatures
        if name not in signatures:
            raise Refused("INVALID_ARGUMENT", f'Serving signature name: "{name}" not found in signature def')
        if not body.get("instances"):
            raise Refused("INVALID_ARGUMENT", "Missing 'inputs' or 'instances' key")
        (alias, info), *_ = signatures[name].inputs.items()
        dtype = tf.as_dtype(info.dtype)
        try:
            value = np.array([self._plain(row, alias) for row in body["instances"]], dtype.as_numpy_dtype)
            request.inputs[alias].CopyFrom(tf.make_tensor_proto(value, dtype))
        except (KeyError, TypeError, ValueError) as error:
            raise Refused("INVALID_ARGUMENT", f"JSON Value: is not of expected type: {dtype.name}") from error

    def _plain(self, value, alias):
        if isinstance(value, dict):
            return self._plain(value[alias], alias) if alias in value else base64.b64decode(value["b64"])
        return [self._plain(part, alias) for part in value] if isinstance(value, list) else value

    def _answer(self, make):
        try:
            code, answer = 200, make()
        except Refused as refused:
            code, answer = HTTP.get(refused.code, 500), {"error": refused.message}
        body = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def _json(message):
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def main(models):
    sys.modules["lci_tf"] = None  # importing it fails, wherever it is installed
    server = Server({name: Model(export_dir) for name, export_dir in (model.split("=", 1) for model in models)})
    by_grpc = grpc.server(
        concurrent.futures.ThreadPoolExecutor(16), options=[("grpc.max_receive_message_length", 2**31 - 1)]
    )
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Grpc(server), by_grpc)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(Grpc(server), by_grpc)
    port = by_grpc.add_insecure_port("localhost:0")
    by_grpc.start()
    by_rest = http.server.ThreadingHTTPServer(("localhost", 0), type("Models", (Rest,), {"models": server}))
    threading.Thread(target=by_rest.serve_forever, daemon=True).start()
    print(json.dumps({"grpc": port, "rest": by_rest.server_port}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1:])
