"""Fine-tuning: trains a network, pre-trained or random, with a new head on labelled images."""

from lci_tf.config import names

_OFFERED = {
    "FineTuning": "finetuning",
    "Part": "finetuning",
    "Tester": "classifier",
    "build": "classifier",
}
__all__ = list(_OFFERED)
__getattr__, __dir__ = names.offer(__name__, _OFFERED)
