"""All randomness of a training example: a function of the seed, the step, and the place in the global batch.

So a resumed run draws what the uninterrupted one would have drawn, and two workers or replicas draw together what one
draws alone. Each purpose has a number of its own; giving two purposes the same one would make them equal.
"""

import tensorflow as tf

VIEW, ORDER, CUT, PATCH, NOISE, TRANSFORMATION = range(6)  # the last: of the first transformation, and so on


def uniform(seed: int, purpose: int, step: tf.Tensor, batch_size: int, shape: tuple[int, ...] = ()) -> tf.Tensor:
    """float32 [batch_size, *shape] in [0, 1): a row for every place in the global batch of this step."""
    return tf.random.stateless_uniform([batch_size, *shape], key(seed, purpose, step))


def places(seed: int, purpose: int, step: tf.Tensor, batch_size: int) -> tf.Tensor:
    """int64 [batch_size, 3]: for every place in the batch the step's key and its number, for `normal`."""
    keys = tf.repeat(key(seed, purpose, step)[tf.newaxis], batch_size, axis=0)
    return tf.concat([keys, tf.range(batch_size, dtype=tf.int64)[:, tf.newaxis]], axis=1)


def normal(places: tf.Tensor, batch_size: int, shape: tuple[int, ...]) -> tf.Tensor:
    """N(0, 1), float32 [n, *shape], for some `places` [n, 3] of a batch: drawn where it is needed, not sent there.

    All of the global batch is drawn, and these rows of it are kept: that is one operation, where a key for each row
    would be one for each, and on a GPU each would wait for the host.
    """
    return tf.gather(tf.random.stateless_normal([batch_size, *shape], places[0, :2]), places[:, 2])


def key(seed: int, purpose: int, step: tf.Tensor) -> tf.Tensor:
    """int64 [2], a seed for `tf.random.stateless_*`."""
    base = tf.constant([seed, purpose], tf.int64)
    return tf.random.experimental.stateless_fold_in(base, tf.cast(step, tf.int64))


def shuffled(seed: int, position: tf.Tensor, count: int) -> tf.Tensor:
    """Which image stands at `position` (int64 [n], counted from the start of the training) of endless epochs.

    Every epoch is a permutation of its own of all `count` images, computed place by place: nothing is stored, and
    starting anywhere costs nothing.
    """
    epoch, place = position // count, position % count
    seeds = tf.stack([tf.fill(tf.shape(epoch), tf.constant(s, tf.int64)) for s in (seed, ORDER)] + [epoch], axis=1)
    # `tf.random.experimental.index_shuffle` is this with a single seed, while a chunk may span two epochs; and with
    # four rounds, after which images that stand together in the source still stand together a little too often.
    return tf.raw_ops.RandomIndexShuffle(index=place, seed=seeds, max_index=tf.constant(count - 1, tf.int64), rounds=8)
