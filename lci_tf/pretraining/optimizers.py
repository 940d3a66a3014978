"""The optimisers of C (AdamW) and of F and D (Adam), with their schedules."""

import tensorflow as tf

from lci_tf.config.settings import Settings
from lci_tf.training.adamw import EPSILON, AdamW, cosine


def build(settings: Settings, steps: int) -> dict[str, tf.keras.optimizers.Optimizer]:
    """The three optimisers for a training of `steps` steps, named like the arguments of `Pretraining.compile`.

    Must be called inside the strategy's scope.
    """
    shape = settings.final_learning_rate / settings.learning_rate

    def adversarial(rate):
        schedule = cosine(rate, rate * shape, steps) if settings.adversarial_cosine else rate
        return tf.keras.optimizers.legacy.Adam(schedule, beta_1=settings.adversarial_beta_1, epsilon=EPSILON)

    optimizers = {
        "classifier_optimizer": AdamW(
            cosine(settings.learning_rate, settings.final_learning_rate, steps),
            settings.weight_decay,
            beta_1=settings.beta_1,
            beta_2=settings.beta_2,
            epsilon=EPSILON,
        ),
        "inpainter_optimizer": adversarial(settings.inpainter_learning_rate),
        "discriminator_optimizer": adversarial(settings.discriminator_learning_rate),
    }
    if settings.mixed_precision == "float16":
        optimizers = {
            name: tf.keras.mixed_precision.LossScaleOptimizer(optimizer) for name, optimizer in optimizers.items()
        }
    return optimizers


def learning_rate(optimizer: tf.keras.optimizers.Optimizer, step: int) -> float:
    """The learning rate of an optimiser from `build` at this step."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    rate = optimizer._get_hyper("learning_rate")
    return float(rate(step) if callable(rate) else tf.convert_to_tensor(rate))
