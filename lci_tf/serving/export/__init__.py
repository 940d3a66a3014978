"""From a trained network to a versioned SavedModel that takes encoded images or pixels."""

from lci_tf.config import names

_OFFERED = {
    "Served": "signatures",
    "export": "exporting",
    "export_classifier": "exporting",
    "export_keras": "exporting",
    "load_features": "loading",
}
__all__ = list(_OFFERED)
__getattr__, __dir__ = names.offer(__name__, _OFFERED)
