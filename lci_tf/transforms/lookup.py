"""Reading images off between their pixels: bilinear, edges clamped."""

import tensorflow as tf


def bilinear_lookup(images: tf.Tensor, points: tf.Tensor) -> tf.Tensor:
    """What the images show at the given points.

    At a whole-numbered point it is the very pixel. Differentiable with respect to the images, not to the points.

    Args:
      images: [n, height, width, channels]. Computed in float32, whatever the type.
      points: float32 [n, h, w, 2], row and column in pixels; a point outside counts as the nearest one inside.

    Returns:
      [n, h, w, channels], of the images' type.
    """
    return lookup_at(images, points[..., 0], points[..., 1])


def lookup_at(images: tf.Tensor, rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """`bilinear_lookup` of points whose rows and columns, [n, h, w] each, come apart."""
    # On GPUs TensorFlow computes with int32 on the host, and waits for it; on CPUs int64 takes a tenth longer.
    whole = tf.int64 if tf.config.list_physical_devices("GPU") else tf.int32
    count, (height, width, channels) = tf.shape(images, whole)[0], images.shape[1:]
    above, below, downwards = _neighbours(rows, height, whole)
    left, right, rightwards = _neighbours(columns, width, whole)
    # Places in all images laid out as one row of pixels.
    first = tf.reshape(tf.range(count) * (height * width), [-1, 1, 1])
    above, below = first + above * width, first + below * width
    upper_left, upper_right, lower_left, lower_right = above + left, above + right, below + left, below + right
    downwards, rightwards = _for_every_channel(downwards, channels), _for_every_channel(rightwards, channels)

    # By hand: TensorFlow's own gradient of four gathers lines up all that they read before it adds, which takes longer.
    @tf.custom_gradient
    def look_up(images):
        pixels = tf.reshape(images, [-1, channels])

        def pixel(place):
            return tf.gather_nd(pixels, place[..., tf.newaxis])  # on CPUs much faster than tf.gather

        def adjoint(gradient):
            upper, lower = _parted(gradient, downwards)
            places = (upper_left, upper_right, lower_left, lower_right)
            shares = (*_parted(upper, rightwards), *_parted(lower, rightwards))
            size = count * height * width
            total = tf.add_n([tf.math.unsorted_segment_sum(*both, size) for both in zip(shares, places, strict=True)])
            return tf.reshape(total, tf.shape(images))

        upper = _between(pixel(upper_left), pixel(upper_right), rightwards)
        lower = _between(pixel(lower_left), pixel(lower_right), rightwards)
        return _between(upper, lower, downwards), adjoint

    looked_up = look_up(tf.cast(images, tf.float32))
    return tf.cast(tf.round(looked_up) if tf.as_dtype(images.dtype).is_integer else looked_up, images.dtype)


def _neighbours(coordinate, size, whole):
    """The pixels before and behind a coordinate, of type `whole`, and the way to it from the first, in [0, 1)."""
    # Row and column are never in one tensor here: its bounds would have to be broadcast, which takes longer than all
    # the rest.
    inside = tf.clip_by_value(tf.cast(coordinate, tf.float32), 0.0, size - 1.0)
    before = tf.cast(inside, whole)
    return before, tf.minimum(before + 1, size - 1), inside - tf.cast(before, tf.float32)


def _between(first, second, way):
    # Exact at the first, and no way leads as far as the second.
    return first + way * (second - first)


def _parted(gradient, way):
    """The adjoint of `_between`."""
    to_second = gradient * way
    return gradient - to_second, to_second


def _for_every_channel(way, channels):
    # Used several times: broadcasting it each time takes longer.
    return tf.repeat(way[..., tf.newaxis], channels, axis=-1)
