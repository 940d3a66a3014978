"""Multiply-adds of a training step, counted in its graph; and what a step reads and exchanges."""

import dataclasses
import math

# Images of a training, and bytes of one in storage: of STL-10's binaries, and by the sizes of the other two's archives.
IMAGES = {"stl10": (100_000, 27_648), "celeb_a": (162_770, 7_125), "imagenet2012": (1_281_167, 115_440)}


@dataclasses.dataclass(frozen=True)
class Counted:
    """Multiply-adds.

    Attributes:
      forward: of each network for one image, patch or pair of patches.
      step: of each network in a step: once forward for all that it is given, and twice as many backward.
      traced: of the whole step, as it stands in the graph, where what nobody needs is not computed.
      parameters: how many numbers each network learns.
    """

    forward: dict[str, int]
    step: dict[str, int]
    traced: int
    parameters: dict[str, int]


def run(dataset="stl10"):
    from lci_tf.config import presets

    settings = presets.resolve(dataset, {})
    found = counted(settings)
    print(f"Multiply-adds with the settings for {dataset}, {settings.batch_size} source images per step")
    for name, value in found.forward.items():
        print(f"  {name}   {value / 1e6:8.1f} M forward, {found.step[name] / 1e9:7.1f} G in a step, "
              f"{found.parameters[name] / 1e6:6.2f} M parameters")  # fmt: skip
    print(f"  {sum(found.step.values()) / 1e9:.1f} G in a step, {found.traced / 1e9:.1f} G of them in its graph")
    gradients = 4 * sum(found.parameters.values())
    print(f"  {gradients / 1e6:.1f} MB of gradients are summed over the devices in every step")
    if dataset in IMAGES:
        steps, read = whole(dataset, settings)
        print(f"  {read / 1e6:.1f} MB of images are read from storage in every step")
        print(f"  {settings.epochs} epochs: {steps:,} steps, {steps * found.traced:.2e} multiply-adds, "
              f"{steps * read / 1e12:.1f} TB read, {steps * gradients / 1e12:.0f} TB of gradients")  # fmt: skip


def whole(dataset, settings):
    """The steps of a whole training, and how many bytes of images each of them reads."""
    images, bytes_of_one = IMAGES[dataset]
    return math.ceil(settings.epochs * images / settings.batch_size), settings.batch_size * bytes_of_one


def counted(settings):
    """What a step with these settings costs."""
    import tensorflow as tf

    from benchmarks.operations import multiply_adds
    from lci_tf.pretraining import batches, training

    learner = training.build(training.Plan(settings=settings, steps=1))
    batch, patch, kinds = settings.batch_size, settings.patch_size, 2 if settings.patch_autoencoding else 1
    given = {
        "C": (learner.classifier, [1, settings.crop_size, settings.crop_size, 3], batch * len(learner.labels)),
        "F": (learner.inpainter, [1, patch, patch, 3], batch * kinds),
        "D": (learner.discriminator, [1, patch, patch, 6], batch),
    }
    forward, step, parameters = {}, {}, {}
    for name, (network, shape, times) in given.items():
        apply = tf.function(lambda x, network=network: network(x, training=False), autograph=False)
        forward[name] = multiply_adds(apply.get_concrete_function(tf.TensorSpec(shape)))
        step[name] = 3 * forward[name] * times
        parameters[name] = sum(int(tf.size(variable)) for variable in network.trainable_variables)
    side = settings.crop_size + settings.margin
    image = tf.TensorSpec([batch, side, side, 3])
    drawn = batches.draw(0, tf.constant(0, tf.int64), batch, learner.transforms)
    draws = {name: tf.TensorSpec(values.shape, values.dtype) for name, values in drawn.items()}
    gradients = tf.function(lambda x, drawn: learner.gradients(x, drawn)[0], autograph=False)
    traced = multiply_adds(gradients.get_concrete_function(image, draws))
    return Counted(forward, step, traced, parameters)
