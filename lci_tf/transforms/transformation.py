"""`Transformation`, the interface of image transformations, each of which makes one or more classes for C."""

import abc

import tensorflow as tf

from lci_tf.config.settings import Settings
from lci_tf.transforms.lookup import lookup_at


class Transformation(abc.ABC):
    """Transforms a batch of images, once for each of its labels.

    A subclass that needs no arguments can be used with `--transforms=rot,my_module:MyTransformation`:

        class Negative(Transformation):
            labels = ("negative",)

            def __call__(self, images, draws):
                return [-images]

    All randomness must come from `draws`, which depend only on the seed, the step and the image's place in the batch.
    """

    labels: tuple[str, ...]
    """The names of the classes that it makes."""

    draws: tuple[int, ...] = (0,)
    """Shape of the uniform draws that it needs per image."""

    of_identity: bool = False
    """Whether to apply it to class 0 as C sees it, where half of the images have an autoencoded patch; else to images.

    Class 0 as C sees it has the size of the crop; with `--resample=each`, it still has its margin.
    """

    is_inpainted = False
    """Whether its pixels come from F, which needs noise. Only for what the learner treats specially."""

    drawn_as: tuple[str, int] | None = None
    """Name and purpose (see `data.draws`) of its draws, if they are not the usual ones of a transformation."""

    @classmethod
    def from_settings(cls, settings: Settings, size: int) -> "Transformation":
        """Creates one for a training with these settings and images of `size` pixels; by default without arguments."""
        return cls()

    @abc.abstractmethod
    def __call__(self, images: tf.Tensor, draws: tf.Tensor) -> list[tf.Tensor]:
        """Transforms a batch.

        Args:
          images: float32 [n, size, size, 3] in [-1, 1].
          draws: float32 [n, *self.draws], uniform in [0, 1).

        Returns:
          a list with a tensor like `images` for each label.
        """


class Movement(Transformation):
    """A transformation that only moves pixels: it computes where to look, and leaves the interpolation to the caller.

    So it can be composed with the tilted cut that follows (`transforms.cut`), and each image is interpolated only once.
    Interpolating twice would make it softer than the others, which would reveal it.
    """

    @abc.abstractmethod
    def move(self, rows: tf.Tensor, columns: tf.Tensor, draws: tf.Tensor) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """Where in the image to find what the transformed image shows at the given points.

        Args:
          rows, columns: float32 [n, h, w], in pixels.
          draws: float32 [n, *self.draws], uniform in [0, 1).

        Returns:
          rows and columns, like those given, for each label.
        """

    def __call__(self, images: tf.Tensor, draws: tf.Tensor) -> list[tf.Tensor]:
        size = images.shape[1]
        rows, columns = tf.meshgrid(*2 * [tf.range(size, dtype=tf.float32)], indexing="ij")
        rows, columns = (tf.repeat(at[tf.newaxis], tf.shape(images)[0], axis=0) for at in (rows, columns))
        return [lookup_at(images, *at) for at in self.move(rows, columns, draws)]
