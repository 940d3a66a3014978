"""Batches with all their randomness, shared out over workers and replicas."""

import tensorflow as tf

from lci_tf.config.presets import Settings
from lci_tf.data import draws, pipeline
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import Source
from lci_tf.transforms import LimitedContextInpainting, Tiles, labels_of


def draw(seed: int, step: tf.Tensor, batch_size: int, transforms) -> dict[str, tf.Tensor]:
    """Everything random in a step: a row for every place in the global batch.

    Returns:
      `"cut"`: [batch, classes, 4], see `transforms.cut`; `"transform_i"`: [batch, …], what the i-th transformation asks
      for; `"noise"`: int64 [batch, 3], the places of the noise that F fills in; and for LCI `"patch"`: [batch, 2],
      where the patch is.
    """
    drawn = {"cut": draws.uniform(seed, draws.CUT, step, batch_size, (len(labels_of(transforms)), 4))}
    for i, transform in enumerate(transforms):
        if isinstance(transform, (LimitedContextInpainting, Tiles)):
            drawn["noise"] = draws.places(seed, draws.NOISE, step, batch_size)
        if isinstance(transform, LimitedContextInpainting):
            drawn["patch"] = draws.uniform(seed, draws.PATCH, step, batch_size, transform.draws)
        else:
            purpose = draws.TRANSFORMATION + i
            drawn[f"transform_{i}"] = draws.uniform(seed, purpose, step, batch_size, transform.draws)
    return drawn


def training_batches(
    source: Source,
    settings: Settings,
    transforms,
    seed: int,
    report: InputReport,
    start_step: int = 0,
    worker: pipeline.Worker = pipeline.ALONE,
) -> tf.data.Dataset:
    """`pipeline.training_batches`, of crops with their margin, and beside each `"draws"`."""
    crops = pipeline.Crops(settings.crop_size + settings.margin, settings.resize)
    images = pipeline.training_batches(source, crops, settings.batch_size, seed, report, start_step, worker)
    part = settings.batch_size // worker.count
    first = worker.index * part

    def with_draws(step, batch):
        drawn = draw(seed, step, settings.batch_size, transforms)
        mine = {name: values[first : first + part] for name, values in drawn.items()}
        return {"image": batch["image"], "draws": mine}

    return tf.data.Dataset.zip((tf.data.Dataset.counter(start_step), images)).map(with_draws).prefetch(2)


def distributed(strategy: tf.distribute.Strategy, make) -> tf.distribute.DistributedDataset:
    """The same over all replicas: `make(worker)` gives each worker's part, whose replicas take turns at it."""

    def of_worker(context):
        worker = pipeline.Worker(context.input_pipeline_id, context.num_input_pipelines)
        replicas = context.num_replicas_in_sync // context.num_input_pipelines
        batches = make(worker)
        if replicas == 1:
            return batches
        size = batches.element_spec["image"].shape[0] // replicas
        return batches.rebatch(size, drop_remainder=True).prefetch(2 * replicas)

    return strategy.distribute_datasets_from_function(of_worker)
