"""The paper's training step on STL-10 in bfloat16, beside the same step in float32."""

from benchmarks.measuring import BATCH, compare_times, print_ratio


def run():
    import tensorflow as tf

    from lci_tf.config import presets
    from lci_tf.pretraining import batches, training

    def step(precision):
        settings = presets.resolve("stl10", {"mixed_precision": precision})
        learner = training.build(training.Plan(settings=settings, steps=800))
        side = settings.crop_size + settings.margin
        images = tf.random.stateless_uniform([BATCH, side, side, 3], [0, 0], -1.0, 1.0)
        batch = {"image": images, "draws": batches.draw(0, tf.constant(0, tf.int64), BATCH, learner.transforms)}
        train = tf.function(lambda: learner.train_step(batch))
        return lambda: [value.numpy() for value in train().values()]

    print(f"a training step of {BATCH} images")
    times = compare_times({name: step(name) for name in ("bfloat16", "float32")}, rounds=9)
    return {"float32 / bfloat16": print_ratio(times)}
