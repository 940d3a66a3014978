"""Average precision as VOC defined it until 2009."""

import numpy as np


def eleven_point(recall: np.ndarray, precision: np.ndarray) -> float:
    """The mean, over recalls of 0, 0.1, …, 1, of the best precision at that recall or a higher one.

    Args:
      recall, precision: float [n], for the first 1, 2, …, n images or detections.
    """
    # A recall of 3/10 must count as 0.3, although floating-point numbers cannot represent it exactly.
    reached = recall[:, None] >= np.linspace(0, 1, 11) - 1e-9
    return float(np.where(reached, precision[:, None], 0.0).max(axis=0, initial=0.0).mean())
