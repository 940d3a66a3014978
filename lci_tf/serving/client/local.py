"""Runs an export in this process, with the interface of a server."""

import functools
import os
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from lci_tf import files
from lci_tf.errors import InputError
from lci_tf.runs import export_folder
from lci_tf.serving import unreadable
from lci_tf.serving.client.predictor import as_text
from lci_tf.serving.export.signatures import VALID


class LocalModel:
    """A version of an export; by default the highest.

    Attributes:
      folder: of the version.
      outputs: the names of what it gives.
    """

    def __init__(self, path: str | os.PathLike, flag: str = "--model"):
        place = files.as_path(files.absolute(path))
        if not place.is_dir():
            raise InputError(f"{flag}={path}: {files.why_no_folder(place)}")
        self.folder = place if (place / "saved_model.pb").is_file() else export_folder.folder_of(place)
        self._loaded = tf.saved_model.load(str(self.folder))  # kept, because it alone keeps the weights
        self._signature = self._loaded.signatures.get("serving_default")
        takes = self._signature.structured_input_signature[1] if self._signature else {}
        if list(takes) != ["image_bytes"]:
            raise InputError(f"{flag}={path}: is not an export of lci_tf, which would take image_bytes")
        self.outputs = sorted(self._signature.structured_outputs)
        self._only = functools.lru_cache(self._with_outputs)

    def predict(self, contents: Sequence[bytes], outputs: Sequence[str]) -> dict[str, np.ndarray]:
        """See `predictor.Predictor`."""
        if not contents:
            shapes = {name: self._signature.structured_outputs[name] for name in outputs}
            return {name: np.zeros([0, *s.shape[1:]], s.dtype.as_numpy_dtype) for name, s in shapes.items()}
        try:
            answer = self._only(tuple(dict.fromkeys([*outputs, VALID])))(tf.constant(contents, tf.string))
        except tf.errors.InvalidArgumentError as error:
            if positions := unreadable.among(contents, str(error)):
                raise unreadable.UnreadableImages(positions) from None
            raise
        if (
            VALID in answer and VALID not in outputs and not answer[VALID].numpy().all()
        ):  # zeros, which nobody shall take for features
            raise unreadable.UnreadableImages(np.flatnonzero(~answer[VALID].numpy()).tolist())
        return {name: as_text(answer[name].numpy()) for name in outputs}

    def _with_outputs(self, outputs):
        """The signature with these outputs alone, as far as it has them: what only others need is not computed."""

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def only(contents):
            answer = self._signature(image_bytes=contents)
            return {name: answer[name] for name in outputs if name in answer}

        return only.get_concrete_function()
