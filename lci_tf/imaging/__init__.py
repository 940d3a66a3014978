"""Decoding, resizing and cropping: how files become the pixels that networks see, the same way everywhere."""

from lci_tf.config import names

_OFFERED = {
    "VIEWS": "images",
    "decode": "decoding",
    "pixels": "images",
    "preprocess": "images",
    "scale": "images",
    "unscale": "images",
}
__all__ = list(_OFFERED)
__getattr__, __dir__ = names.offer(__name__, _OFFERED)
