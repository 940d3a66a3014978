"""Nearest neighbours in feature space: classification accuracy, retrieval, and a map of a data set.

`exact_search` and `faiss_search` find neighbours, `knn_evaluation` measures accuracy, `retrieval` draws neighbours, and
`atlas` makes the map.
"""

from lci_tf.config import names

_OFFERED = {
    "Atlas": "atlas",
    "Network": "knn_evaluation",
    "KnnProtocol": "knn_evaluation",
    "evaluate": "knn_evaluation",
    "knn_accuracy": "exact_search",
    "nearest": "exact_search",
    "nearest_others": "exact_search",
    "on_a_plane": "atlas",
    "retrieve": "retrieval",
}
__all__ = list(_OFFERED)
__getattr__, __dir__ = names.offer(__name__, _OFFERED)
