"""An export in this process, asked as a server is."""

import os
import pathlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from lci_tf.errors import InputError
from lci_tf.runs import absolute
from lci_tf.serving import exporting, unreadable


class LocalModel:
    """A version of an export; by default the highest.

    Attributes:
      folder: of the version.
      outputs: the names of what it gives.
    """

    def __init__(self, path: str | os.PathLike, flag: str = "--model"):
        place = pathlib.Path(absolute(path))
        if not place.is_dir():
            raise InputError(f"{flag}={path}: no such folder")
        self.folder = place if (place / "saved_model.pb").is_file() else exporting.folder_of(place)
        loaded = tf.saved_model.load(str(self.folder))
        self._signature = loaded.signatures.get("serving_default")
        takes = self._signature.structured_input_signature[1] if self._signature else {}
        if list(takes) != ["image_bytes"]:
            raise InputError(f"{flag}={path}: is not an export of lci_tf, which would take image_bytes")
        self.outputs = sorted(self._signature.structured_outputs)

    def predict(self, contents: Sequence[bytes], outputs: Sequence[str]) -> dict[str, np.ndarray]:
        """See `embedding.Predictor`."""
        try:
            answer = self._signature(image_bytes=tf.constant(contents, tf.string))
        except tf.errors.InvalidArgumentError as error:
            if positions := unreadable.among(contents, str(error)):
                raise unreadable.UnreadableImages(positions) from None
            raise
        return {name: answer[name].numpy() for name in outputs}
