"""Pre-training: C is trained against the inpainter F, with callbacks for logs, pictures, probes and checkpoints.

`learner` has the paper's equations; `training` runs a training from beginning to end.
"""

from lci_tf.config import names

_OFFERED = {
    "Examples": "learner",
    "Patches": "learner",
    "Plan": "training",
    "Pretraining": "learner",
    "Seams": "seams",
    "build": "training",
    "restored": "training",
    "train": "training",
}
__all__ = list(_OFFERED)
__getattr__, __dir__ = names.offer(__name__, _OFFERED)
