"""One request to TF Serving by its REST interface."""

import base64
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence

import numpy as np

from lci_tf.serving.client import bounded_http, metadata
from lci_tf.serving.client.metadata import Signature
from lci_tf.serving.client.retries import ServerError
from lci_tf.serving.export.signatures import BYTES

_CODES = {
    400: "INVALID_ARGUMENT",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_PER_IMAGE = len('{"b64": ""}, ')


class RestTransport:
    """Sends requests to one model on a server; thread-safe.

    Args:
      address: http://HOST:PORT.
      model_name: as the server calls it.
    """

    def __init__(self, address: str, model_name: str):
        self._url = f"{address.rstrip('/')}/v1/models/{urllib.parse.quote(model_name, safe='')}"

    def size(self, content: bytes) -> int:
        """How many bytes an image takes in a request."""
        return (len(content) + 2) // 3 * 4 + _PER_IMAGE

    def signature(self, seconds: float) -> Signature:
        """Of the model's version that is served now."""
        answer = self._call("/metadata", None, seconds)
        try:
            signatures = answer["metadata"]["signature_def"]["signature_def"]
            return metadata.from_json(int(answer["model_spec"]["version"]), signatures.get(BYTES, {}))
        except (KeyError, TypeError, ValueError) as error:
            raise ServerError("UNKNOWN", "its metadata are not TF Serving's") from error

    def predict(
        self, contents: Sequence[bytes], outputs: Sequence[str], served: Signature, seconds: float
    ) -> dict[str, np.ndarray]:
        """What the version served gives for encoded images, by the names of its outputs."""
        instances = [{"b64": base64.b64encode(content).decode()} for content in contents]
        body = json.dumps({"signature_name": BYTES, "instances": instances}).encode()
        answer = self._call(f"/versions/{served.version}:predict", body, seconds)
        try:
            rows = answer["predictions"]
            if len(served.outputs) == 1:  # TF Serving names them only where there are several
                rows = [{name: row} for row in rows for name in served.outputs]
            return {
                name: np.array([row[name] for row in rows], served.outputs[name].dtype.as_numpy_dtype)
                for name in outputs
                if all(name in row for row in rows)
            }
        except (KeyError, TypeError, ValueError) as error:
            raise ServerError("UNKNOWN", "its answer is not TF Serving's") from error

    def _call(self, path, body, seconds):
        request = urllib.request.Request(self._url + path, body, {"Content-Type": "application/json"})
        try:
            return json.loads(bounded_http.fetch(request, seconds))
        except urllib.error.HTTPError as error:
            raise ServerError(_CODES.get(error.code, "UNKNOWN"), _said(error)) from error
        except TimeoutError as error:
            raise ServerError("DEADLINE_EXCEEDED", "timed out") from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)  # urllib wraps what happens while connecting
            code = "DEADLINE_EXCEEDED" if isinstance(reason, TimeoutError) else "UNAVAILABLE"
            raise ServerError(code, str(reason)) from error
        except json.JSONDecodeError as error:
            raise ServerError("UNKNOWN", "its answer is not JSON") from error

    def close(self) -> None:
        """Every request has a connection of its own."""


def _said(error):
    """The message of TF Serving, which is not always proper JSON, or what another server says."""
    text = error.said.decode(errors="replace")
    try:
        return str(json.loads(text)["error"])
    except (json.JSONDecodeError, KeyError, TypeError):
        return f"{error.code} {error.reason}: {text}"
