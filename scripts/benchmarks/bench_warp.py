"""Our warp beside tensorflow-addons', and with many control points beside few; and `--resample`, once beside each."""

import importlib.util
import json

from benchmarks.measuring import BATCH, compare_times, in_own_process, print_ratio

SIDES = (64, 128)


def run():
    """With TensorFlow's own kernels, which it takes by itself on many processors, and with oneDNN's, as lci_tf does."""
    ratios = {}
    for kernels, setting in (("TensorFlow's own", "0"), ("oneDNN's", "1")):
        for side in SIDES:
            print(f"{kernels} kernels", flush=True)
            printed = in_own_process("bench_warp", "compare_warps", side, TF_ENABLE_ONEDNN_OPTS=setting)
            found = json.loads(printed.splitlines()[-1])
            ratios |= {f"{name}, {side} pixels, {kernels} kernels": value for name, value in found.items()}
    printed = in_own_process("bench_warp", "compare_resampling")
    return {**ratios, **json.loads(printed.splitlines()[-1])}


def compare_warps(side):
    import tensorflow as tf

    from lci_tf.transforms.warp import PolyharmonicWarp

    side = int(side)
    images = tf.random.stateless_uniform([BATCH, side, side, 3], [0, 0], -1.0, 1.0)
    print(f"warping {BATCH} images of {side}×{side} pixels")

    def ours(grid):
        shifts = tf.random.stateless_uniform([BATCH, grid**2, 2], [0, 1], -0.1 * side, 0.1 * side)
        layer = PolyharmonicWarp(grid)
        warp = tf.function(lambda: layer.warp(images, shifts))
        return lambda: warp().numpy()

    ratios = {"9 points / 64 points": 1 / print_ratio(compare_times({"9 points": ours(3), "64 points": ours(8)}))}
    if importlib.util.find_spec("tensorflow_addons") is None:
        print("  tensorflow-addons is not installed (there is none for Python 3.12 and newer): nothing to compare with")
    else:
        import tensorflow_addons as tfa

        line = tf.linspace(0.0, side - 1.0, 5)
        points = tf.reshape(tf.stack(tf.meshgrid(line, line, indexing="ij"), axis=-1), [1, 25, 2])
        points = tf.repeat(points, BATCH, axis=0)
        shifted = points + tf.random.stateless_uniform([BATCH, 25, 2], [0, 1], -0.1 * side, 0.1 * side)
        theirs = tf.function(lambda: tfa.image.sparse_image_warp(images, shifted, points)[0])
        both = {"ours, 25 points": ours(5), "tensorflow-addons, 25 points": lambda: theirs().numpy()}
        ratios["tensorflow-addons / ours"] = print_ratio(compare_times(both))
    print(json.dumps(ratios), flush=True)


def compare_resampling():
    """Making the images of a step with rotations and warp, `--resample=once` beside `--resample=each`."""
    import tensorflow as tf

    from lci_tf import transforms
    from lci_tf.config import presets
    from lci_tf.pretraining import batches
    from lci_tf.pretraining.learner import Pretraining

    print(f"making C's images of {BATCH} images, with rotations and warp")

    def images(resample):
        settings = presets.resolve("stl10", {"transforms": ("rot", "warp"), "resample": resample})
        side = settings.crop_size + settings.margin
        learner = Pretraining(None, None, None, transforms.create(settings.transforms, settings), settings)
        x = tf.random.stateless_uniform([BATCH, side, side, 3], [0, 0], -1.0, 1.0)
        draws = batches.draw(0, tf.constant(0, tf.int64), BATCH, learner.transforms)
        make = tf.function(lambda: tf.concat(learner.transformed(x, None, draws), axis=0))
        return lambda: make().numpy()

    both = {"resampled once": images("once"), "resampled each time": images("each")}
    print(json.dumps({"each / once": print_ratio(compare_times(both))}), flush=True)
