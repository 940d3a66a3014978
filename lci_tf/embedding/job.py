"""All that it takes to embed images, in plain values: so that any process on any machine can open the same."""

import dataclasses
import hashlib
import os

from lci_tf import data, files
from lci_tf.data.source import ImageFiles, Source
from lci_tf.embedding import shards
from lci_tf.embedding.embedding import Work
from lci_tf.errors import InputError
from lci_tf.serving.client.predictor import Predictor


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """Which images, which network, and where the features go.

    Attributes:
      dataset, split, data_dir: see `data.open_source`.
      model: an export; or else `server`, which calls its model `model_name` and may take `deadline` seconds.
      features: names of outputs.
      format: a name in `shards.FORMATS`.
      batch_size, in_flight, shard_size: see `embedding.Work`.
    """

    dataset: str
    split: str | None
    data_dir: tuple[str, ...]
    model: str | None
    server: str | None
    model_name: str
    deadline: float
    features: tuple[str, ...]
    format: str
    out_dir: str
    batch_size: int
    in_flight: int
    shard_size: int

    def __post_init__(self):
        # Whole paths, which mean the same in any folder and on any machine.
        object.__setattr__(self, "data_dir", tuple(files.absolute(folder) for folder in self.data_dir))
        object.__setattr__(self, "out_dir", files.absolute(self.out_dir))

    def open(self) -> tuple[Source, Predictor, Work, shards.Shards]:
        """What `embedding.embed` takes."""
        source = data.open_source(self.dataset, self.split, self.data_dir)
        predictor, which = self.predictor()
        for name in self.features:
            if name not in predictor.outputs:
                raise InputError(f"--features={name}: {which} gives {', '.join(predictor.outputs)}")
        protocol = {
            "model": which,
            "data": {
                "name": source.name,
                "split": source.split,
                "images": source.count,
                "data_dir": list(self.data_dir),
                "names": _digest(source),
            },
            "features": list(self.features),
            "format": self.format,
            "shard_size": self.shard_size,
        }
        work = Work(self.features, self.batch_size, self.in_flight, self.shard_size, protocol)
        shapes = {name: rows.shape[1:] for name, rows in predictor.predict([], self.features).items()}
        return source, predictor, work, shards.FORMATS[self.format](files.place(self.out_dir), shapes)

    def predictor(self) -> tuple[Predictor, str]:
        """The network, and which it is."""
        if self.model:
            from lci_tf.serving.client.local import LocalModel

            model = LocalModel(self.model)
            return model, str(model.folder)
        from lci_tf.serving.client import client

        server = client.connect(self.server, self.model_name, deadline=self.deadline, in_flight=self.in_flight)
        return server, f"{self.server}/{self.model_name}/{server.version}"

    def for_other_machines(self, opened: Work) -> "Job":
        """The same with the very version of an export that was opened here."""
        return dataclasses.replace(self, model=opened.protocol["model"] if self.model else None)


def _digest(source):
    """Of the names of files, so that another machine can tell whether it sees the same; None where there are none."""
    if not isinstance(source, ImageFiles):
        return None
    digest = hashlib.sha256()
    for path in source.paths:
        digest.update(os.fsencode(path) + b"\0")
    return digest.hexdigest()[:16]
