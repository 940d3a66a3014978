"""What features are worth: linear probes, nearest neighbours, fine-tuning, VOC, and how local a transformation is.

`probe`, `neighbours`, `finetune`, `voc` and `locality` are packages of their own; the modules here are what they share.
"""

from lci_tf.config import names

_OFFERED = {
    "Evaluation": "metrics",
    "FeatureFile": "feature_file",
    "Standardisation": "standardisation",
    "UnlabelledMeasures": "unlabelled",
    "agreement": "unlabelled",
    "effective_rank": "unlabelled",
    "evaluate": "metrics",
}
__all__ = list(_OFFERED)
__getattr__, __dir__ = names.offer(__name__, _OFFERED)
