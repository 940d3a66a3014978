"""What the tasks share: a request, its answer, and the folder of the results."""

import dataclasses
import pathlib
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from lci_tf.config.voc_protocols import Protocol
from lci_tf.data.source import check_batch
from lci_tf.runs import provenance, results_folder
from lci_tf.runs.provenance import Question
from lci_tf.runs.results_folder import Results
from lci_tf.runs.trained import FeatureModel

_PROSE = ("source", "differs", "changed")  # fields of a protocol on which no result depends


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """What to train and test on, and where to write the results.

    Attributes:
      dataset, data_dirs, train_split, test_split: as `data.labelled.open_labelled` takes them.
      max_bad_images: how many unreadable images to tolerate; see `InputReport`.
      seed: random seed.
      out_dir: folder for the results; None for the default, see `results_folder.default`.
      checkpoint_every: iterations between checkpoints.
      options: by name, what only one of the tasks needs.
    """

    dataset: str
    data_dirs: tuple[str, ...] = ()
    train_split: str | None = None
    test_split: str | None = None
    max_bad_images: float = 0.01
    seed: int = 0
    out_dir: str | None = None
    checkpoint_every: int = 1000
    options: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Answer:
    """The results of a task.

    Attributes:
      folder: the folder that contains them.
      asked: everything that they depend on; see `provenance`.
      results: the contents of results.json.
      table: the results as a table for the screen.
      files: names of other files to look at, by what they contain.
    """

    folder: pathlib.Path
    asked: Question
    results: Results
    table: str
    files: dict[str, str] = dataclasses.field(default_factory=dict)


def begin(
    task: str, model: FeatureModel, protocol: Protocol, request: Request, data: dict[str, Any]
) -> tuple[Question, pathlib.Path, Results | None]:
    """The question that a request asks, the folder for its results, and the results if they are there already.

    Args:
      task: one of `voc_protocols.TASKS`.
      data: identifies the images and what is known of them, in plain values; see `provenance`. `"train"` are those
        to train on.

    Raises:
      InputError: the folder is for another question, or the batch is larger than the images to train on are many.
    """
    if "batch_size" in protocol.changed:  # that of a protocol may be larger than a small data set
        check_batch(protocol.batch_size, request.dataset, data["train"]["split"], data["train"]["images"])
    asked = provenance.question(
        task=task,
        protocol={name: value for name, value in dataclasses.asdict(protocol).items() if name not in _PROSE},
        network=provenance.of_network(model.origin),
        data={"dataset": request.dataset, **data},
        seed=request.seed,
    )
    default = results_folder.default("voc", [task, protocol.name], model.origin, asked)
    folder = pathlib.Path(request.out_dir or default)
    return asked, folder, results_folder.begin(folder, asked, task)


def show_in_tensorboard(folder: pathlib.Path, names: Iterable[str]) -> None:
    """Shows PNG files of a results folder, those that exist, in its TensorBoard."""
    with tf.summary.create_file_writer(str(folder / "tensorboard")).as_default(step=0):
        for picture in (folder / name for name in names):
            if picture.is_file():
                tf.summary.image(picture.stem, tf.io.decode_png(picture.read_bytes(), channels=3)[tf.newaxis])
