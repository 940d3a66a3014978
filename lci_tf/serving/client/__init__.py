"""Asking a server, or an export in this process, for features of encoded images."""

from lci_tf.serving.client.client import MAX_REQUEST_BYTES, MAX_REQUEST_IMAGES, MODEL_NAME, Client, connect

__all__ = ["MAX_REQUEST_BYTES", "MAX_REQUEST_IMAGES", "MODEL_NAME", "Client", "connect"]
