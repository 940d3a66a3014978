"""Everything needed to embed images, in plain values, so that processes on any machine can open the same job."""

import dataclasses

from lci_tf import data, files
from lci_tf.data.source import Source
from lci_tf.embedding import known_picture, shards
from lci_tf.embedding.embedding import Work
from lci_tf.errors import InputError
from lci_tf.runs import provenance
from lci_tf.serving.client.predictor import Predictor


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """Which images to embed, with which network, and where to write the features.

    Attributes:
      dataset, split, data_dir: see `data.open_source`.
      model: an export; or None, to use the model `model_name` of a `server`, with a `deadline` in seconds.
      features: names of the model's outputs.
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
        # Absolute paths, which mean the same in any working directory and on any machine.
        object.__setattr__(self, "data_dir", tuple(files.absolute(folder) for folder in self.data_dir))
        object.__setattr__(self, "out_dir", files.absolute(self.out_dir))

    def open(self) -> tuple[Source, Predictor, Work, shards.Shards]:
        """The arguments of `embedding.embed`."""
        source = data.open_source(self.dataset, self.split, self.data_dir)
        predictor, which = self.predictor()
        for name in self.features:
            if name not in predictor.outputs:
                raise InputError(f"--features={name}: {which} gives {', '.join(predictor.outputs)}")
        known_by = predictor.predict([known_picture.png()], self.features)
        for name, rows in known_by.items():
            if rows.dtype == object:
                raise InputError(f"--features={name}: is text; only numbers are kept, such as probabilities")
        images = provenance.of_images(source, labels=False)
        protocol = provenance.question(
            model=which,
            data={"name": source.name, "data_dir": self.data_dir, **images},
            features=self.features,
            format=self.format,
            shard_size=self.shard_size,
            **{known_picture.ANSWERS: known_picture.answers(known_by)},
        )
        work = Work(self.features, self.batch_size, self.in_flight, self.shard_size, protocol)
        shapes = {name: rows.shape[1:] for name, rows in known_by.items()}
        return source, predictor, work, shards.FORMATS[self.format](files.as_path(self.out_dir), shapes)

    def predictor(self) -> tuple[Predictor, str]:
        """The network, and its path or address."""
        if self.model:
            from lci_tf.serving.client.local import LocalModel

            model = LocalModel(self.model)
            return model, str(model.folder)
        from lci_tf.serving import client

        assert self.server is not None  # or there would be a model
        server = client.connect(self.server, self.model_name, deadline=self.deadline, in_flight=self.in_flight)
        return server, f"{self.server}/{self.model_name}/{server.version}"

    def for_other_machines(self, opened: Work) -> "Job":
        """The same job with exactly the version of the export that was opened here."""
        return dataclasses.replace(self, model=opened.protocol["model"] if self.model else None)
