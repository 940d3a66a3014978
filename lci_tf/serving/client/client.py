"""Features of encoded images from a server: many images, several requests at a time, answers in order.

with client.connect("localhost:8500") as features:
    rows = features.predict([open("photo.jpg", "rb").read()], ["embedding"])["embedding"]
"""

import concurrent.futures
import urllib.parse
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from lci_tf.errors import InputError
from lci_tf.serving.client.grpc_transport import GrpcTransport
from lci_tf.serving.client.predictor import predict_all
from lci_tf.serving.client.rest_transport import RestTransport
from lci_tf.serving.client.served_model import ServedModel, Transport
from lci_tf.serving.unreadable import UnreadableImages

MODEL_NAME = "features"  # scripts/serve calls it so
MAX_REQUEST_BYTES = 4_000_000  # gRPC's own limit is 4 MiB; TF Serving takes more, what stands before it may not
MAX_REQUEST_IMAGES = 64  # TF Serving refuses a request larger than its batches, which in scripts/serve have 128
_ENVELOPE = 2_000  # bytes of a request beside its images


def connect(
    server: str,
    model_name: str = MODEL_NAME,
    deadline: float = 60.0,
    in_flight: int = 4,
    max_request_bytes: int = MAX_REQUEST_BYTES,
    max_request_images: int = MAX_REQUEST_IMAGES,
) -> "Client":
    """Connects to a server and checks its model, so that mistakes are reported immediately.

    Args:
      server: HOST:PORT or grpc://HOST:PORT; or http://HOST:PORT for REST.
      model_name: as the server calls it.
      deadline: seconds for a request; until then it is repeated if the server is busy, or away.
      in_flight: how many requests to have under way at most.
      max_request_bytes: an image that is larger goes alone.
      max_request_images: how many images to send at once at most.
    """
    address = urllib.parse.urlsplit(server if "://" in server else f"grpc://{server}")
    try:
        is_address = bool(address.hostname and address.port)
    except ValueError:  # the port is no number
        is_address = False
    if not is_address or address.scheme not in ("grpc", "http", "https"):
        raise InputError(f"--server={server}: expected HOST:PORT, or http://HOST:PORT for REST")
    if address.scheme == "grpc":
        transport: Transport = GrpcTransport(address.netloc, model_name)
    else:
        transport = RestTransport(server, model_name)
    try:
        model = ServedModel(server, model_name, transport, deadline)
    except BaseException:
        transport.close()
        raise
    return Client(model, transport, in_flight, max_request_bytes, max_request_images)


class Client:
    """See `connect`.

    All requests go to the version that was served when the client connected, so that one run never mixes the
    features of two networks.
    """

    def __init__(
        self, model: ServedModel, transport: Transport, in_flight: int, max_request_bytes: int, max_request_images: int
    ):
        self._model, self._transport, self._in_flight = model, transport, in_flight
        self._max_bytes, self._max_images = max_request_bytes - _ENVELOPE, max_request_images
        self._threads = concurrent.futures.ThreadPoolExecutor(in_flight, "requests")

    @property
    def version(self) -> int:
        """The number of the version."""
        return self._model.version

    @property
    def outputs(self) -> Sequence[str]:
        """The names of what it gives."""
        return self._model.outputs

    def predict(self, contents: Sequence[bytes], outputs: Sequence[str]) -> dict[str, np.ndarray]:
        """What the model gives for encoded images, a row for each, in their order.

        Raises:
          UnreadableImages: if some are no images.
          InputError: if the server does not answer, or not with these outputs.
        """
        self._model.require(outputs)
        return self._collect(self._send(contents, outputs), outputs)

    def predict_all(
        self, batches: Iterable[Sequence[bytes]], outputs: Sequence[str]
    ) -> Iterator[dict[str, np.ndarray]]:
        """The same for many batches, in order, a few of which are read ahead.

        Rows of images that cannot be read are zeros, and `"valid"`, bool [n], says which can.
        """
        self._model.require(outputs)
        return predict_all(self, batches, outputs, self._in_flight)

    def _send(self, contents, outputs):
        """Requests under way for consecutive parts of the contents, each with the number of its images."""
        return [(self._threads.submit(self._model.predict, part, outputs), len(part)) for part in self._parts(contents)]

    def _parts(self, contents):
        part: list[bytes] = []
        size = 0
        for content in contents:
            more = self._transport.size(content)
            if part and (size + more > self._max_bytes or len(part) == self._max_images):
                yield part
                part, size = [], 0
            part.append(content)
            size += more
        if part:
            yield part

    def _collect(self, requests, outputs):
        """The rows of several requests as one; or all positions that cannot be read."""
        answers, bad, start = [], [], 0
        try:
            for request, count in requests:
                try:
                    answers.append(request.result())
                except UnreadableImages as error:
                    bad += [start + position for position in error.positions]
                start += count
        finally:
            _cancel(requests)
        if bad:
            raise UnreadableImages(bad)
        answers = answers or [self._model.no_rows(outputs)]
        return {name: np.concatenate([answer[name] for answer in answers]) for name in outputs}

    def close(self) -> None:
        """Gives up what is under way."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._transport.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *error) -> None:
        self.close()


def _cancel(requests):
    for request, _ in requests:
        request.cancel()
