"""Training batches with all their random draws, distributed over workers and replicas."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from lci_tf.config.settings import Settings
from lci_tf.data import draws, pipeline
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import Source
from lci_tf.transforms import AnyTransformation, labels_of

MakeBatches = Callable[..., tf.data.Dataset]  # of a `pipeline.Worker`, and perhaps a first step, `start_step`


def draw(seed: int, step: tf.Tensor, batch_size: int, transforms: Sequence[AnyTransformation]) -> dict[str, tf.Tensor]:
    """All random draws of a step, with a row for every place in the global batch.

    Returns:
      `"cut"`: [batch, classes, 4], see `transforms.cut`; `"transform_i"`: [batch, …], the draws of the i-th
      transformation; if F is used, `"noise"`: int64 [batch, 4], from which `data.draws.normal` makes its noise; and for
      LCI `"patch"`: [batch, 2], the position of the patch.
    """
    drawn = {"cut": draws.uniform(seed, draws.CUT, step, batch_size, (len(labels_of(transforms)), 4))}
    for i, transform in enumerate(transforms):
        name, purpose = transform.drawn_as or (f"transform_{i}", draws.TRANSFORMATION + i)
        drawn[name] = draws.uniform(seed, purpose, step, batch_size, transform.draws)
        if transform.is_inpainted:
            drawn["noise"] = draws.places(seed, draws.NOISE, step, batch_size)
    return drawn


def training_batches(
    source: Source,
    settings: Settings,
    transforms: Sequence[AnyTransformation],
    seed: int,
    report: InputReport,
    start_step: int = 0,
    worker: pipeline.Worker = pipeline.ALONE,
) -> tf.data.Dataset:
    """`pipeline.training_batches` of crops with their margin, `"image"`, with the random draws for them, `"draws"`."""
    crops = pipeline.Crops(settings.crop_size + settings.margin, settings.resize)
    images = pipeline.training_batches(source, crops, settings.batch_size, seed, report, start_step, worker)
    part = settings.batch_size // worker.count
    first = worker.index * part

    def with_draws(step, batch):
        drawn = draw(seed, step, settings.batch_size, transforms)
        mine = {name: values[first : first + part] for name, values in drawn.items()}
        return {"image": batch["image"], "draws": mine}

    return tf.data.Dataset.zip((tf.data.Dataset.counter(start_step), images)).map(with_draws).prefetch(2)


def distributed(strategy: tf.distribute.Strategy, make: MakeBatches) -> tf.distribute.DistributedDataset:
    """Distributes batches over all replicas: `make(worker)` makes a worker's part, which its replicas share."""

    def of_worker(context):
        worker = pipeline.Worker(context.input_pipeline_id, context.num_input_pipelines)
        replicas = context.num_replicas_in_sync // context.num_input_pipelines
        batches = make(worker)
        if replicas == 1:
            return batches
        size = batches.element_spec["image"].shape[0] // replicas
        return batches.rebatch(size, drop_remainder=True).prefetch(2 * replicas)

    return strategy.distribute_datasets_from_function(of_worker)
