"""Estimates the memory of a pre-training; see `lci_tf.training.memory`."""

import tensorflow as tf

from lci_tf.config.settings import Settings
from lci_tf.pretraining.players import Players
from lci_tf.training import memory


def estimate(learner: Players, settings: Settings, strategy: tf.distribute.Strategy) -> memory.Estimate:
    """Estimates the memory of one process that trains C, F and D."""
    # How many images C, F and D see per source image. D sees pairs, of original patches and of F's.
    both_kinds = settings.trains_seams or settings.patch_autoencoding
    of_each = {
        learner.classifier: len(learner.labels),
        learner.inpainter: 2 if both_kinds else 1,
        learner.discriminator: 1.5 if settings.trains_seams else 1,
    }
    seen = {network: images for network, images in of_each.items() if network is not None}
    return memory.estimate(seen, settings.batch_size, strategy)
