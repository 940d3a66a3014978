"""Pictures, diagrams and figures for papers, drawn from arrays.

`pictures` composes small images for the screen, `panels` for a paper; `plots` and `curves` draw diagrams; `projector`
writes features for TensorBoard's projector.
"""

from lci_tf.config import names

_OFFERED = {
    "confusion_matrix": "plots",
    "grid": "pictures",
    "image_map": "panels",
    "knn_accuracy": "plots",
    "levels": "pictures",
    "side_by_side": "pictures",
    "smoothed": "curves",
}
__all__ = list(_OFFERED)
__getattr__, __dir__ = names.offer(__name__, _OFFERED)
