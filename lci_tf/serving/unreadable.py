"""How a served model reports unreadable images, and how a client finds its own among them.

A server may run the requests of several clients as one batch. If that batch fails, all of them get its message, with
positions in a batch that none of them has seen. So the message has fingerprints of the images too.
"""

import re
from collections.abc import Sequence

import tensorflow as tf

from lci_tf.errors import InputError

_SAYS = "image_bytes: no readable JPEG, PNG, BMP or GIF at position {}, fingerprint {}"
_FINGERPRINTS = re.compile(r"no readable JPEG, PNG, BMP or GIF at position [^,]*, fingerprint \[([\d ]*)\]")
_NAMED = 32  # TF Serving cuts messages off at 1,024 bytes


class UnreadableImages(InputError):
    """Some images of a request cannot be read; the rest can be sent again.

    Attributes:
      positions: their indices, ascending. There may be further unreadable ones among the rest.
    """

    def __init__(self, positions: Sequence[int]):
        self.positions = list(positions)
        super().__init__(f"no readable JPEG, PNG, BMP or GIF at position {', '.join(map(str, self.positions))}")


def message(contents: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
    """What a graph says of encoded images, strings [n], of which some are not valid, bool [n]."""
    bad = tf.where(~valid)[:_NAMED, 0]
    return tf.strings.format(_SAYS, (bad, _fingerprints(tf.gather(contents, bad))), summarize=-1)


def among(contents: Sequence[bytes], text: str) -> list[int] | None:
    """Positions of the images that a message is about; none if it is about somebody else's.

    Returns:
      None if the message is about something else.
    """
    found = _FINGERPRINTS.search(text)
    if found is None:
        return None
    bad = {int(number) for number in found.group(1).split()}
    ours = _fingerprints(tf.constant(contents, tf.string, [len(contents)])).numpy().tolist()
    return [i for i, fingerprint in enumerate(ours) if fingerprint in bad]


def _fingerprints(contents):
    return tf.strings.to_hash_bucket_fast(contents, 2**31 - 1)
