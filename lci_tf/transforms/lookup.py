"""Bilinear interpolation of images at arbitrary points; points outside are clamped to the edge."""

import tensorflow as tf


def bilinear_lookup(images: tf.Tensor, points: tf.Tensor) -> tf.Tensor:
    """The values of the images at the given points, by bilinear interpolation.

    At integer points these are exactly the pixels. Differentiable with respect to the images, not to the points.

    Args:
      images: [n, height, width, channels] of any type; computed in float32.
      points: float32 [n, h, w, 2], row and column in pixels; points outside are moved to the nearest one inside.

    Returns:
      [n, h, w, channels], of the type of the images.
    """
    return lookup_at(images, points[..., 0], points[..., 1])


def lookup_at(images: tf.Tensor, rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """`bilinear_lookup` with the rows and columns of the points as separate tensors, [n, h, w] each."""
    # With GPUs, TensorFlow computes int32 on the host, and waits for it; on CPUs, int64 takes a tenth longer.
    whole = tf.int64 if tf.config.list_physical_devices("GPU") else tf.int32
    count, (height, width, channels) = tf.shape(images, whole)[0], images.shape[1:]
    above, below, downwards = _neighbours(rows, height, whole)
    left, right, rightwards = _neighbours(columns, width, whole)
    # Indices into the pixels of all images as one sequence.
    first = tf.reshape(tf.range(count) * (height * width), [-1, 1, 1])
    above, below = first + above * width, first + below * width
    upper_left, upper_right, lower_left, lower_right = above + left, above + right, below + left, below + right
    downwards, rightwards = _for_every_channel(downwards, channels), _for_every_channel(rightwards, channels)

    # TensorFlow's own gradient of four gathers concatenates all their outputs before it adds them, which takes longer.
    @tf.custom_gradient
    def look_up(images):
        pixels = tf.reshape(images, [-1, channels])

        def pixel(place):
            return tf.gather_nd(pixels, place[..., tf.newaxis])  # on CPUs much faster than tf.gather

        def adjoint(gradient):
            upper, lower = _split_gradient(gradient, downwards)
            places = (upper_left, upper_right, lower_left, lower_right)
            shares = (*_split_gradient(upper, rightwards), *_split_gradient(lower, rightwards))
            size = count * height * width
            total = tf.add_n([tf.math.unsorted_segment_sum(*both, size) for both in zip(shares, places, strict=True)])
            return tf.reshape(total, tf.shape(images))

        upper = _between(pixel(upper_left), pixel(upper_right), rightwards)
        lower = _between(pixel(lower_left), pixel(lower_right), rightwards)
        return _between(upper, lower, downwards), adjoint

    looked_up = look_up(tf.cast(images, tf.float32))
    return tf.cast(tf.round(looked_up) if tf.as_dtype(images.dtype).is_integer else looked_up, images.dtype)


def _neighbours(coordinate, size, whole):
    """The pixels before and after a coordinate, of type `whole`, and its distance from the first, in [0, 1)."""
    # Rows and columns stay in separate tensors, as broadcasting different bounds takes longer than all the rest.
    inside = tf.clip_by_value(tf.cast(coordinate, tf.float32), 0.0, size - 1.0)
    before = tf.cast(inside, whole)
    return before, tf.minimum(before + 1, size - 1), inside - tf.cast(before, tf.float32)


def _between(first, second, fraction):
    # Exact at the first pixel; the second is never reached, as the fraction is below 1.
    return first + fraction * (second - first)


def _split_gradient(gradient, fraction):
    """The adjoint of `_between`."""
    to_second = gradient * fraction
    return gradient - to_second, to_second


def _for_every_channel(fraction, channels):
    # It is used several times, and broadcasting each time takes longer.
    return tf.repeat(fraction[..., tf.newaxis], channels, axis=-1)
