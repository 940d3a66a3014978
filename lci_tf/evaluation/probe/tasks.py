"""`Task`: the batches of images and labels on which linear classifiers are trained and tested."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import tensorflow as tf

from lci_tf.config.probe_protocols import ProbeProtocol
from lci_tf.data import pipeline
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import LabelKind, Source, count_of
from lci_tf.imaging import images
from lci_tf.runs import trained

Batches = Iterable[dict[str, tf.Tensor]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """Images to train and to test on, with labels.

    Labels are as in `Source`: int64 [n], or int8 [n, classes]; those of -1 do not count.

    Attributes:
      label_kind: `"class"` or `"multi-label"`.
      label_names: names of the labels, in the order of their numbers.
      count, test_count: numbers of training and test images; `test_count` is None if unknown.
      train: function from a step to endless batches that start there, of `"image"`, float32 [n, crop, crop, 3] in
        [-1, 1], and `"label"`. To make training resumable, batches must depend only on the step.
      train_once: one pass over the same images without random crops, in batches like those of `test`.
      test: one pass over the test images, in batches of `"image"`, float32 [n, views, crop, crop, 3], of which the
        first view is used for single-crop results; `"label"`; `"index"`, int64 [n]; and `"valid"`, bool [n].
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
    """The task of predicting labels: random crops of training images, centre crops or several of test images.

    Args:
      train, test: images with the same labels, see `labelled.open_labelled`. `train` must know its count, see
        `with_count`.
      protocol: for the size of crops and batches.
      seed: random seed for the order of images and the crops.
      views: crops of each test image, see `pipeline.evaluation_batches`.
      max_bad_images: how many may be unreadable; see `InputReport`.
    """
    train_report, test_report = InputReport(train, max_bad_images), InputReport(test, max_bad_images)
    crops, batch_size = crops_of(protocol), protocol.batch_size
    at_once = max(1, batch_size // len(images.VIEWS[views]))  # so that batches are as large as in training
    return Task(
        label_kind=train.label_kind,
        label_names=train.label_names,
        count=count_of(train),
        test_count=test.count,
        train=lambda step: _with_one_line_errors(
            pipeline.training_batches(train, crops, batch_size, seed, train_report, step), train_report
        ),
        train_once=lambda: _with_one_line_errors(
            pipeline.evaluation_batches(train, crops, batch_size, train_report), train_report
        ),
        test=lambda: _with_one_line_errors(
            pipeline.evaluation_batches(test, crops, at_once, test_report, views), test_report
        ),
    )


def crops_of(protocol: ProbeProtocol) -> pipeline.Crops:
    """The crops of a protocol, which must have been resolved, so that it has a crop size."""
    if protocol.crop_size is None or protocol.resize is None:
        raise ValueError(f"protocol {protocol.name!r}: crop_size and resize must be known")
    return pipeline.Crops(protocol.crop_size, protocol.resize)


def with_count(source: Source) -> Source:
    """The source with its count, for which a stream may have to be read."""
    if source.count is not None:
        return source
    return dataclasses.replace(source, count=int(source.stream().reduce(np.int64(0), lambda n, row: n + 1)))


def calibrate_batch_norm(model: trained.FeatureModel, task: Task) -> None:
    """Estimates the batch-norm statistics of an untrained network on training images."""
    trained.calibrate_batch_norm(
        model, (batch["image"] for batch in itertools.islice(task.train(0), trained.BATCHES_SEEN))
    )


def _with_one_line_errors(batches, report) -> Iterator[dict[str, tf.Tensor]]:
    with report.one_line_errors():
        yield from batches
