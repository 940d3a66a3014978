"""What linear classifiers are taught and then asked: batches to train on and to test with."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import tensorflow as tf

from lci_tf.config.probe_protocols import ProbeProtocol
from lci_tf.data import pipeline
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import LabelKind, Source
from lci_tf.imaging import images
from lci_tf.runs import trained

Batches = Iterable[dict[str, tf.Tensor]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """Images and what to say of them.

    Labels are as `Source` has them: int64 [n], or int8 [n, classes]; those of -1 do not count.

    Attributes:
      label_kind: `"class"` or `"multi-label"`.
      label_names: in the order of the label's numbers.
      count, test_count: images to train on, and to test with if that is known.
      train: from a step to the endless batches that begin with it, of `"image"`, float32 [n, crop, crop, 3] in
        [-1, 1], and `"label"`. To resume exactly, what a step holds must depend on the step alone.
      train_once: one pass over the same images without anything random, in batches as in testing.
      test: one pass over others, of `"image"`, float32 [n, views, crop, crop, 3], the first view being the one for
        the figure of a single crop; `"label"`; `"index"`, int64 [n]; and `"valid"`, bool [n].
    """

    label_kind: LabelKind
    label_names: tuple[str, ...]
    count: int
    test_count: int | None
    train: Callable[[int], Batches]
    train_once: Callable[[], Batches]
    test: Callable[[], Batches]


def by_labels(
    train: Source,
    test: Source,
    protocol: ProbeProtocol,
    seed: int = 0,
    views: str = "centre",
    max_bad_images: float = 0.01,
) -> Task:
    """Random crops of labelled images to train on, and centre crops, or several, of others to test with.

    Args:
      train, test: with the same labels, see `labelled.open_labelled`. `train` must know its count, see `counted`.
      protocol: for the crops, and the size of a batch.
      seed: of the order of images and of the places of crops.
      views: of test images, see `pipeline.evaluation_batches`.
      max_bad_images: how many may be unreadable; see `InputReport`.
    """
    train_report, test_report = InputReport(train, max_bad_images), InputReport(test, max_bad_images)
    crops, batch_size = pipeline.Crops(protocol.crop_size, protocol.resize), protocol.batch_size
    at_once = max(1, batch_size // len(images.VIEWS[views]))  # so that a batch is as large as in training
    return Task(
        label_kind=train.label_kind,
        label_names=train.label_names,
        count=train.count,
        test_count=test.count,
        train=lambda step: _told(
            pipeline.training_batches(train, crops, batch_size, seed, train_report, step), train_report
        ),
        train_once=lambda: _told(pipeline.evaluation_batches(train, crops, batch_size, train_report), train_report),
        test=lambda: _told(pipeline.evaluation_batches(test, crops, at_once, test_report, views), test_report),
    )


def counted(source: Source) -> Source:
    """The source with its number of images, for which a stream may have to be read."""
    if source.count is not None:
        return source
    return dataclasses.replace(source, count=int(source.stream().reduce(np.int64(0), lambda n, row: n + 1)))


def settle(model: trained.FeatureModel, task: Task) -> None:
    """Has the batch normalisation of a random network see training images; see `trained.settle`."""
    trained.settle(model, (batch["image"] for batch in itertools.islice(task.train(0), trained.BATCHES_SEEN)))


def _told(batches, report) -> Iterator[dict[str, tf.Tensor]]:
    with report.one_line_errors():
        yield from batches
