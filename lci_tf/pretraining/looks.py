"""Measurements that need no labels, of F's patches and C's features, on a few hundred images during training."""

import functools
import math
from collections.abc import Callable

from lci_tf.config.settings import Settings
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import Source
from lci_tf.pretraining import batches
from lci_tf.pretraining.fill import FillMeasures
from lci_tf.pretraining.players import Players

SAMPLE = 256  # images that are measured
Look = Callable[[Players, int], dict[str, float]]
Reported = tuple[Source, InputReport]


def choose(
    learner: Players,
    settings: Settings,
    seed: int,
    images: Reported,
    held_out: Reported | None,
    measure: Callable | None,
) -> list[Look]:
    """The measurements that apply to this learner; for the arguments see `training.train`."""
    looks: list[Look] = []
    if learner.inpainter and not settings.trains_seams:
        looks.append(FillMeasures(_sample(learner, settings, seed, *(held_out or images))))
    if learner.classifier and measure:
        looks.append(_look_at_features(measure, _sample(learner, settings, seed, *images)))
    return looks


def _sample(learner, settings, seed, source, report):
    """A function that returns the same batches each time."""

    @functools.cache
    def batches_of_sample():
        made = batches.training_batches(source, settings, learner.transforms, seed, report)
        return list(made.take(math.ceil(SAMPLE / settings.batch_size)))

    return batches_of_sample


def _look_at_features(measure, sample):
    of_features = measure(lambda: (batch["image"] for batch in sample()))

    def look(learner, step):
        found = of_features(learner.classifier.get_layer("features"))
        return {f"features/{layer}_{kind}": value for layer, of in found.items() for kind, value in of.items()}

    return look


def line(step: int, numbers: dict[str, float]) -> str:
    """The measurements of a step, in one line for the screen."""
    found = []
    for kind, form in (("rank", "{:.0f}"), ("agreement", "{:.0%}")):
        values = [form.format(value) for name, value in numbers.items() if name.endswith(f"_{kind}")]
        if values:
            found.append(f"{kind} of features {' '.join(values)}")
    if "fill/colour_correlation" in numbers:
        found.append(
            f"F's colours and the border's correlate by {numbers['fill/colour_correlation']:.2f} "
            f"(natural {numbers['fill/natural_correlation']:.2f})"
        )
    if "fill/discriminator_natural" in numbers:
        natural, inpainted = (numbers[f"fill/discriminator_{kind}"] for kind in ("natural", "inpainted"))
        found.append(f"D is right about {natural:.0%} of natural and {inpainted:.0%} of inpainted pairs")
    return f"step {step}: {'; '.join(found)}"
