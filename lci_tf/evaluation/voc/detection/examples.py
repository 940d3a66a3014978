"""The detector's inputs for training and testing: images of any size, and regions in them."""

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from lci_tf.config.voc_protocols import Detection
from lci_tf.errors import InputError
from lci_tf.evaluation.voc.detection import sampling
from lci_tf.evaluation.voc.detection.annotations import Annotated
from lci_tf.evaluation.voc.detection.boxes import TO_EDGES
from lci_tf.imaging import decoding, images

_ORDER, _REGIONS = 0, 1  # parts of random keys: what is drawn


@dataclasses.dataclass(frozen=True)
class Images:
    """Annotated images and the proposals for each, float32 [n, 4]."""

    annotated: Sequence[Annotated]
    proposals: Sequence[np.ndarray]


def training_batches(of: Images, protocol: Detection, seed: int, first_step: int = 0) -> tf.data.Dataset:
    """Endless batches, which depend only on the seed and the step.

    An epoch consists of all images that have an object, and their mirror images, in a new order.

    Returns:
      `"step"`, int64; `"images"`, float32 [n, height, width, 3] in [-1, 1], padded with grey at the right and the
      bottom; and the `sampling.Regions` of each image in its pixels: `"boxes"` [n, m, 4], `"labels"` [n, m],
      `"targets"` [n, m, 4], `"weights"` [n, m].
    """
    usable = [i for i, one in enumerate(of.annotated) if sampling.can_train(one)]
    if not usable:
        raise InputError("no training image has an object that is not difficult")
    size, per_image = protocol.batch_size, protocol.rois // protocol.batch_size

    def draw(position):
        number, mirror = in_order(seed, int(position), len(usable))
        index = usable[number]
        one, rng = of.annotated[index], np.random.default_rng([seed, _REGIONS, int(position)])
        side = rng.choice(protocol.train_sides)
        regions = sampling.sample(rng, one, of.proposals[index], per_image, protocol)
        if mirror:
            regions = sampling.mirrored(one, regions)
        return str(one.path).encode(), mirror, np.float32(protocol.scaled(side)), *regions

    def example(position):
        path, mirror, side, boxes, labels, targets, weights = tf.numpy_function(
            draw, [position], [tf.string, tf.bool, *[tf.float32] * 2, tf.int32, *[tf.float32] * 2]
        )
        pixels = images.pixels(tf.io.read_file(path))
        pixels = tf.cond(mirror, lambda: pixels[:, ::-1], lambda: pixels)
        image = resized(pixels, side, protocol.scaled(protocol.train_longest))
        boxes = carried_over(boxes, pixels, image)
        regions = {"boxes": boxes, "labels": labels, "targets": targets, "weights": weights}
        tails = {"boxes": [4], "labels": [], "targets": [4], "weights": []}
        regions = {name: tf.ensure_shape(regions[name], [per_image, *tail]) for name, tail in tails.items()}
        return {"images": image, **regions}

    positions = tf.data.Dataset.counter(first_step * size)
    batches = positions.map(example, num_parallel_calls=4, deterministic=True).padded_batch(size, drop_remainder=True)
    steps = tf.data.Dataset.counter(first_step)
    return tf.data.Dataset.zip((steps, batches)).map(lambda step, batch: {"step": step, **batch}).prefetch(2)


def test_images(of: Images) -> tf.data.Dataset:
    """Pairs of pixels, uint8 [height, width, 3], and proposals, float32 [n, 4], for each image in order."""

    def example(number):
        path, boxes = tf.numpy_function(
            lambda i: (str(of.annotated[i].path).encode(), of.proposals[i]), [number], [tf.string, tf.float32]
        )
        return images.pixels(tf.io.read_file(path)), tf.ensure_shape(boxes, [None, 4])

    return tf.data.Dataset.range(len(of.annotated)).map(example, num_parallel_calls=2, deterministic=True).prefetch(2)


def resized(pixels: tf.Tensor, side: tf.Tensor, longest: tf.Tensor) -> tf.Tensor:
    """Resizes an image to this short side, or less if its long side would exceed `longest`; float32 in [-1, 1]."""
    before = tf.cast(tf.shape(pixels)[:2], tf.float32)
    scale = tf.minimum(side / tf.reduce_min(before), longest / tf.reduce_max(before))
    after = tf.cast(tf.maximum(tf.round(before * scale), 1.0), tf.int32)
    return tf.ensure_shape(images.scale(tf.image.resize(pixels, after)), [None, None, 3])


def in_order(seed: int, position: int, count: int) -> tuple[int, bool]:
    """Which of `count` images is at a position of the training, and whether mirrored: each of both once per epoch."""
    epoch, place = divmod(position, 2 * count)
    number = np.random.default_rng([seed, _ORDER, epoch]).permutation(2 * count)[place]
    return int(number) // 2, bool(number % 2)


def carried_over(boxes: tf.Tensor, before: tf.Tensor, after: tf.Tensor) -> tf.Tensor:
    """Converts boxes from pixels of an image to those of the same image at another size."""
    was, is_now = (tf.cast(tf.gather(tf.shape(image), [1, 0, 1, 0]), tf.float32) for image in (before, after))
    return (boxes + TO_EDGES) * is_now / was - TO_EDGES


def crops(paths: Sequence[pathlib.Path], size: int) -> tf.Tensor:
    """The centre crops of some images, float32 [n, size, size, 3] in [-1, 1]."""
    view = tf.constant(images.VIEWS["centre"])
    return tf.concat([images.preprocess(tf.io.read_file(str(path)), view, size, size) for path in paths], axis=0)


@contextlib.contextmanager
def one_line_errors(annotated: Sequence[Annotated]) -> Iterator[None]:
    """A context in which a failure to read one of these images becomes an `InputError` that names it."""
    try:
        yield
    except tf.errors.InvalidArgumentError:
        for one in annotated:
            contents = one.path.read_bytes()
            try:
                decoding.decode(tf.constant(contents))
            except tf.errors.InvalidArgumentError:
                raise InputError(f"{one.path}: {decoding.why_refused(contents)}") from None
        raise  # some other error, which is not the user's mistake
