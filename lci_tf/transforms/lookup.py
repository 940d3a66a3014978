"""Reading images off between their pixels: bilinear, edges clamped."""

import tensorflow as tf


def bilinear_lookup(images: tf.Tensor, points: tf.Tensor) -> tf.Tensor:
    """What the images show at the given points.

    At a whole-numbered point it is the very pixel. Differentiable with respect to the images, not to the points.

    Args:
      images: [n, height, width, channels], at least 2×2. Computed in float32, whatever the type.
      points: float32 [n, h, w, 2], row and column in pixels; a point outside counts as the nearest one inside.

    Returns:
      [n, h, w, channels], of the images' type.
    """
    return lookup_at(images, points[..., 0], points[..., 1])


def lookup_at(images: tf.Tensor, rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """`bilinear_lookup` of points whose rows and columns, [n, h, w] each, come apart."""
    count, (height, width, channels) = tf.shape(images)[0], images.shape[1:]
    row, downwards = _whole_and_rest(rows, height)
    column, rightwards = _whole_and_rest(columns, width)
    first = tf.reshape(tf.range(count) * (height * width), [-1, 1, 1])
    corner = first + row * width + column
    # The neighbours of the upper left corner, in the image laid out as one row of pixels.
    upper_left, upper_right, lower_left, lower_right = corner, corner + 1, corner + width, corner + width + 1
    downwards, rightwards = _for_every_channel(downwards, channels), _for_every_channel(rightwards, channels)
    upwards, leftwards = 1 - downwards, 1 - rightwards

    # By hand: TensorFlow's own gradient of four gathers lines up all that they read before it adds, which takes longer.
    @tf.custom_gradient
    def look_up(images):
        pixels = tf.reshape(images, [-1, channels])

        def between(left, right):
            # Not left + share · (right - left), which misses the right one by rounding.
            return tf.gather(pixels, left) * leftwards + tf.gather(pixels, right) * rightwards

        def adjoint(gradient):
            upper, lower = gradient * upwards, gradient * downwards
            shares = (
                (upper_left, upper * leftwards),
                (upper_right, upper * rightwards),
                (lower_left, lower * leftwards),
                (lower_right, lower * rightwards),
            )
            size = count * height * width
            total = tf.add_n([tf.math.unsorted_segment_sum(share, place, size) for place, share in shares])
            return tf.reshape(total, tf.shape(images))

        result = between(upper_left, upper_right) * upwards + between(lower_left, lower_right) * downwards
        return result, adjoint

    return tf.cast(look_up(tf.cast(images, tf.float32)), images.dtype)


def _whole_and_rest(coordinate, size):
    """The pixel before a coordinate, which has one behind it, and the way to go from it to the next, in [0, 1]."""
    # Row and column are never in one tensor here: its bounds would have to be broadcast, which takes longer than all
    # the rest.
    inside = tf.clip_by_value(tf.cast(coordinate, tf.float32), 0.0, size - 1.0)
    whole = tf.minimum(tf.cast(inside, tf.int32), size - 2)
    return whole, inside - tf.cast(whole, tf.float32)


def _for_every_channel(share, channels):
    # Used several times: broadcasting it each time takes longer.
    return tf.repeat(share[..., tf.newaxis], channels, axis=-1)
