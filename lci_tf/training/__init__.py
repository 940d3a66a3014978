"""What pre-training and fine-tuning share: the optimisers, the choice of devices, estimates of memory."""

from lci_tf.config import names

_OFFERED = {
    "AdamW": "adamw",
    "cosine": "adamw",
    "is_chief": "strategy",
}
__all__ = list(_OFFERED)
__getattr__, __dir__ = names.offer(__name__, _OFFERED)
