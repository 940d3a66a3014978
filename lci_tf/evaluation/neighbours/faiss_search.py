"""Finds the same neighbours as `exact_search` with faiss, if it is installed; all train features are in memory."""

import numpy as np

from lci_tf.errors import InputError
from lci_tf.evaluation.feature_file import row_blocks
from lci_tf.evaluation.neighbours.exact_search import Features, Neighbours

_BLOCK_BYTES = 64 * 2**20


def require() -> None:
    """Raises `InputError` if faiss is not installed."""
    try:
        import faiss  # noqa: F401
    except ImportError:
        raise InputError("--faiss: faiss is not installed; pip install faiss-cpu, or leave the flag out") from None


def nearest(train_x: Features, test_x: Features, k: int, leave_out: np.ndarray | None = None) -> Neighbours:
    """Like `exact_search.nearest`, except that equally similar images come in any order."""
    import faiss

    index = faiss.IndexFlatIP(train_x.shape[1])
    for rows in row_blocks(train_x, _BLOCK_BYTES):
        index.add(train_x[rows])
    found = []
    for rows in row_blocks(test_x, _BLOCK_BYTES):
        similarity, numbers = index.search(test_x[rows], k if leave_out is None else k + 1)
        if leave_out is not None:
            kept = numbers != leave_out[rows, None]
            kept[kept.all(axis=1), -1] = False  # there were so many copies that the image was not found itself
            similarity, numbers = (values[kept].reshape(-1, k) for values in (similarity, numbers))
        found.append((numbers, similarity))
    return Neighbours(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def nearest_others(x: Features, k: int) -> Neighbours:
    """Like `exact_search.nearest_others`, with the same exception."""
    return nearest(x, x, k, leave_out=np.arange(len(x)))
