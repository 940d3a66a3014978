"""Training settings and evaluation protocols, every value with its source. Nothing here imports TensorFlow.

`presets` has the paper's settings by data set, `probe_protocols` and `finetune_protocols` those of evaluations, and
`names` everything that has a name on the command line.
"""

from lci_tf.config import names

_OFFERED = {
    "FinetuneProtocol": "finetune_protocols",
    "PRESETS": "presets",
    "ProbeProtocol": "probe_protocols",
    "Settings": "settings",
    "preset": "presets",
}
__all__ = list(_OFFERED)
__getattr__, __dir__ = names.offer(__name__, _OFFERED)
