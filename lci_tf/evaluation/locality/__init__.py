"""Measures how much of an image one must see to tell that it was transformed: see docs/locality.md.

`bags` has classifiers that see only windows of an image, `telling` trains and tests them, `cells` does so for every
size of window and keeps the results, and `report` sums them up.
"""

from lci_tf.config import names

_OFFERED = {
    "Budget": "telling",
    "Cell": "cells",
    "Pairs": "pairs",
    "Window": "bags",
    "ask": "telling",
    "bag": "bags",
    "learn": "telling",
    "measure": "cells",
}
__all__ = list(_OFFERED)
__getattr__, __dir__ = names.offer(__name__, _OFFERED)
