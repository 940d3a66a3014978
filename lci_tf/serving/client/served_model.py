"""A model on a server: its outputs, and single requests to it, with every failure reported in one line."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from lci_tf.errors import InputError
from lci_tf.serving import unreadable
from lci_tf.serving.client import retries
from lci_tf.serving.client.metadata import Signature
from lci_tf.serving.client.predictor import as_text
from lci_tf.serving.client.retries import ServerError
from lci_tf.serving.export.signatures import BYTES, BYTES_INPUT, VALID
from lci_tf.serving.unreadable import UnreadableImages

log = logging.getLogger("lci_tf")


class Transport(Protocol):
    """How a model is reached, by several threads at once. Failures are `ServerError`s."""

    def size(self, content: bytes) -> int:
        """How many bytes an image takes in a request."""

    def signature(self, seconds: float) -> Signature:
        """Of the version that is served now."""

    def predict(
        self, contents: Sequence[bytes], outputs: Sequence[str], served: Signature, seconds: float
    ) -> dict[str, np.ndarray]:
        """What the version served gives for encoded images, by the names of its outputs."""

    def close(self) -> None:
        """Gives up what is under way."""


class ServedModel:
    """The version of a model that a server has now.

    Args:
      server: as the user gave it, for messages.
      model_name: as the server calls it.
      transport: to that model.
      deadline: see `retries.ask`.

    Attributes:
      version: its number.
      outputs: the names of what it gives.
    """

    def __init__(self, server: str, model_name: str, transport: Transport, deadline: float):
        self._server, self._name, self._transport, self._deadline = server, model_name, transport, deadline
        self._has_told = False
        self._served = self._ask(transport.signature)
        takes = {name: spec.dtype for name, spec in self._served.inputs.items()}
        if takes != {BYTES_INPUT: tf.string}:
            found = ", ".join(f"{name} ({dtype.name})" for name, dtype in takes.items()) or "nothing"
            raise self._refusal(
                f"its model {model_name!r} is no export of lci_tf: {BYTES} takes {found}, not {BYTES_INPUT} (string)"
            )
        self.version, self.outputs = self._served.version, tuple(self._served.outputs)

    def require(self, outputs: Sequence[str]) -> None:
        """Refuses outputs that the model does not give."""
        for name in outputs:
            if name not in self.outputs:
                raise self._refusal(f"its model {self._name!r} gives {', '.join(self.outputs)}, not {name!r}")

    def predict(self, contents: Sequence[bytes], outputs: Sequence[str]) -> dict[str, np.ndarray]:
        """What the model gives for encoded images that fit into a request. See `client.Client.predict`."""
        # A model may give zeros for what it cannot read. Nobody shall take them for features.
        names = [*outputs, VALID] if VALID in self.outputs and VALID not in outputs else outputs

        def predict(seconds):
            try:
                return self._transport.predict(contents, names, self._served, seconds)
            except ServerError as error:
                bad = unreadable.among(contents, error.message) if error.code == "INVALID_ARGUMENT" else None
                if bad:
                    raise UnreadableImages(bad) from error
                if bad is not None:
                    raise ServerError("UNAVAILABLE", "another client's unreadable image spoilt the batch") from error
                raise

        answer = self._ask(predict)
        for name in names:
            if name not in answer:
                raise self._refusal(f"the answer lacks the output {name!r}")
            if len(answer[name]) != len(contents):
                raise self._refusal(f"gives {len(answer[name])} rows of {name!r} for {len(contents)} images")
        if names != outputs and not answer[VALID].all():
            raise UnreadableImages(np.flatnonzero(~answer[VALID]).tolist())
        return {name: as_text(rows) for name, rows in answer.items()}

    def no_rows(self, outputs: Sequence[str]) -> dict[str, np.ndarray]:
        """What the model would give for no images."""
        specs = {name: self._served.outputs[name] for name in outputs}
        return {
            name: np.zeros([0, *(side or 0 for side in spec.shape[1:])], spec.dtype.as_numpy_dtype)
            for name, spec in specs.items()
        }

    def _ask(self, request: Callable[[float], Any]) -> Any:
        try:
            return retries.ask(request, self._deadline, self._tell)
        except ServerError as error:
            raise self._refusal(error.explained(self._name, self._deadline)) from error

    def _tell(self, error):
        if not self._has_told:  # once: requests that wait for the same server are many
            self._has_told = True
            log.info("%s: %s; asking again for %g s", self._server, error, self._deadline)

    def _refusal(self, why):
        return InputError(f"--server={self._server}: {why}")
