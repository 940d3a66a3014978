"""Computes features of many images, shard by shard, on one machine or many, and searches among them.

`embedding` runs in this process, `beam_pipeline` on many machines; `shards` writes features to disk; `search` finds the
nearest images.
"""

from lci_tf.config import names

_OFFERED = {
    "Found": "search",
    "Job": "job",
    "NumpyShards": "shards",
    "Rows": "shards",
    "Shards": "shards",
    "TFRecordShards": "shards",
    "Work": "embedding",
    "embed": "embedding",
    "embed_shard": "embedding",
    "nearest": "search",
}
__all__ = list(_OFFERED)
__getattr__, __dir__ = names.offer(__name__, _OFFERED)
