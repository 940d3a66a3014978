"""All random draws for a training example, as functions of the seed, the step and the place in the global batch.

Thus a resumed run draws the same numbers as an uninterrupted one, and several workers or replicas draw the same as a
single one. Every purpose has a number of its own; two purposes with the same number would get the same draws.
"""

import tensorflow as tf

# Transformation i of a training uses TRANSFORMATION + i, so nothing may follow it.
VIEW, ORDER, CUT, PATCH, NOISE, TRANSFORMATION = range(6)
LABEL, DROPOUT = -1, -2  # chooses one of several labels of an image; chooses the units to leave out


def uniform(seed: int, purpose: int, step: tf.Tensor, batch_size: int, shape: tuple[int, ...] = ()) -> tf.Tensor:
    """Draws in [0, 1), float32 [batch_size, *shape]: a row per place in the global batch of this step."""
    return tf.random.stateless_uniform([batch_size, *shape], key(seed, purpose, step))


def places(seed: int, purpose: int, step: tf.Tensor, batch_size: int) -> tf.Tensor:
    """int64 [batch_size, 4]: for each place in the global batch, the generator's state and the place; see `normal`."""
    # The state is computed here, in the pipeline, as only the host can; in a step, it would have to wait for the GPU.
    state = tf.raw_ops.StatelessRandomGetKeyCounter(seed=key(seed, purpose, step))
    state = tf.bitcast(tf.concat([state.key, state.counter], axis=0), tf.int64)
    states = tf.repeat(state[tf.newaxis], batch_size, axis=0)
    return tf.concat([states, tf.range(batch_size, dtype=tf.int64)[:, tf.newaxis]], axis=1)


def normal(places: tf.Tensor, batch_size: int, shape: tuple[int, ...]) -> tf.Tensor:
    """Draws from N(0, 1), float32 [n, *shape], for `places` [n, 4] of a batch, on the device that needs them.

    This draws for the whole global batch and keeps the rows of these places, which is a single operation. A key per
    row would take one operation per row.
    """
    state = tf.bitcast(places[0, :3], tf.uint64)
    drawn = tf.raw_ops.StatelessRandomNormalV2(
        shape=[batch_size, *shape], key=state[:1], counter=state[1:], alg=tf.random.Algorithm.AUTO_SELECT.value
    )
    return tf.gather(drawn, places[:, 3])


def key(seed: int, purpose: int, step: tf.Tensor) -> tf.Tensor:
    """A seed for `tf.random.stateless_*`, int64 [2]."""
    base = tf.constant([seed, purpose], tf.int64)
    return tf.random.experimental.stateless_fold_in(base, tf.cast(step, tf.int64))


def shuffled(seed: int, position: tf.Tensor, count: int) -> tf.Tensor:
    """Indices of the images at `position`, int64 [n], in an endless sequence of shuffled epochs.

    Positions count from the start of the training. Each epoch is a different permutation of all `count` images,
    computed position by position: nothing is stored, and starting anywhere costs nothing.
    """
    epoch, place = position // count, position % count
    seeds = tf.stack([tf.fill(tf.shape(epoch), tf.constant(s, tf.int64)) for s in (seed, ORDER)] + [epoch], axis=1)
    # `tf.random.experimental.index_shuffle` does this with a single seed, but these positions may span two epochs; and
    # with four rounds, after which neighbours in the source are still neighbours a little too often.
    return tf.raw_ops.RandomIndexShuffle(index=place, seed=seeds, max_index=tf.constant(count - 1, tf.int64), rounds=8)
