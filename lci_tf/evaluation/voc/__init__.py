"""The paper's Table 4: C is fine-tuned on PASCAL VOC for classification, detection and segmentation.

Each task is a package with a function `run` in the module of its name; the modules here are what they share.
"""

from lci_tf.config import names

_OFFERED = {
    "Answer": "task",
    "Request": "task",
    "Trunk": "trunk",
    "absorbed": "surgery",
    "build": "trunk",
    "rescale": "rescaling",
}
__all__ = list(_OFFERED)
__getattr__, __dir__ = names.offer(__name__, _OFFERED)
