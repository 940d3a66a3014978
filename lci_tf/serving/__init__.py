"""Features as a service: SavedModels that any TensorFlow process loads, and clients of TF Serving.

`export` writes the SavedModels, `client` asks for features.
"""

from lci_tf.config import names

_OFFERED = {
    "ServedFeatures": "served_features",
    "UnreadableImages": "unreadable",
}
__all__ = list(_OFFERED)
__getattr__, __dir__ = names.offer(__name__, _OFFERED)
