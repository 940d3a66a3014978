"""What can be asked for features of encoded images: a server, or an export in this process."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from lci_tf.serving.client.in_order import in_order
from lci_tf.serving.export.signatures import VALID
from lci_tf.serving.unreadable import UnreadableImages


def as_text(values: np.ndarray) -> np.ndarray:
    """Outputs that are text as such: from a SavedModel, or a server by gRPC, they come as bytes."""
    if values.dtype != object:
        return values
    return np.vectorize(lambda v: v.decode() if isinstance(v, bytes) else v, otypes=[object])(values)


class Predictor(Protocol):
    @property
    def outputs(self) -> Sequence[str]:
        """The names of what it gives."""

    def predict(self, contents: Sequence[bytes], outputs: Sequence[str]) -> dict[str, np.ndarray]:
        """Encoded images to outputs by name, a row for each; for no images, arrays without rows.

        Raises:
          UnreadableImages: some of them cannot be read, and `"valid"`, by which an export may tell so, is not among the
            outputs asked for.
        """


def predict_readable(predictor: Predictor, contents: Sequence[bytes], outputs: Sequence[str]) -> dict[str, np.ndarray]:
    """The same for images of which some cannot be read: their rows are zeros, and `"valid"`, bool [n], is false."""
    if VALID in predictor.outputs:
        return predictor.predict(contents, list(dict.fromkeys([*outputs, VALID])))
    places: Any = np.flatnonzero([len(content) > 0 for content in contents])
    while True:
        try:
            found = predictor.predict([contents[i] for i in places], outputs)
            break
        except UnreadableImages as error:
            places = np.delete(places, error.positions)
    answer = {name: np.zeros([len(contents), *rows.shape[1:]], rows.dtype) for name, rows in found.items()}
    for name, rows in found.items():
        answer[name][places] = rows
    return {**answer, VALID: np.isin(np.arange(len(contents)), places)}


def predict_all(
    predictor: Predictor, batches: Iterable[Sequence[bytes]], outputs: Sequence[str], in_flight: int
) -> Iterator[dict[str, np.ndarray]]:
    """`predict_readable` of many batches, in order, with up to `in_flight` under way."""
    return in_order(lambda contents: predict_readable(predictor, contents, outputs), batches, in_flight)
