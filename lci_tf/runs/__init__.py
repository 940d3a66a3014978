"""The run directory of a training, the folders of results, and loading of trained networks.

`Run` is the run directory. `checkpoints` saves and restores, `trained` loads C or any other network for its features,
`provenance` records what a result depends on, and `results_folder` keeps results together with that record.
`preemption` ends work on SIGTERM so that it can be resumed.
"""

from lci_tf.config import names
from lci_tf.runs.run import FLAGFILE, Run, versions

_OFFERED = {
    "Checkpoints": "checkpoints",
    "FeatureModel": "trained",
    "find_checkpoint": "checkpoints",
    "from_run": "trained",
}
__all__ = ["FLAGFILE", "Run", "versions", *_OFFERED]
__getattr__, __dir__ = names.offer(__name__, _OFFERED)
