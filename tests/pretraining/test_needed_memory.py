import pytest
import tensorflow as tf

from lci_tf.pretraining import needed_memory
from lci_tf.pretraining.training import build

ONE = tf.distribute.OneDeviceStrategy("CPU:0")


def estimate(plan, strategy=ONE):
    with strategy.scope():
        return needed_memory.estimate(build(plan), plan.settings, strategy)


def test_an_estimate_grows_with_the_batch_and_not_with_the_number_of_replicas(tiny_plan, two_replicas):
    small, large = (estimate(tiny_plan(batch_size=size)) for size in (8, 80))
    assert large.total - small.total == pytest.approx(72 * small.per_image) and small.fixed == large.fixed
    # Devices of one machine share its memory.
    assert estimate(tiny_plan(batch_size=8), two_replicas).images == 8
    without_lci = estimate(tiny_plan(transforms=("rot",)))
    assert without_lci.per_image < small.per_image and without_lci.fixed < small.fixed
