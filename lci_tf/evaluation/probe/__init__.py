"""Linear classifiers on frozen features, trained by SGD or in closed form.

`linear_probe` and `ridge_probe` train them on every layer of a network; `quick_probe` measures a network in training.
"""

from lci_tf.config import names

_OFFERED = {
    "FrozenFeatures": "frozen",
    "Probe": "probing",
    "QuickProbe": "quick_probe",
    "RidgeClassifier": "ridge",
    "Task": "tasks",
    "by_labels": "tasks",
    "fit_heads": "ridge_probe",
    "ridge_accuracy": "ridge",
    "train_heads": "linear_probe",
}
__all__ = list(_OFFERED)
__getattr__, __dir__ = names.offer(__name__, _OFFERED)
