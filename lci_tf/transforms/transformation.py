"""What a transformation is: one or more classes for C to tell apart from the others."""

import abc

import tensorflow as tf

from lci_tf.config.presets import Settings


class Transformation(abc.ABC):
    """Makes transformed images of a batch, once for each of its labels.

    A subclass that can be made without arguments is used by `--transforms=rot,my_module:MyTransformation`:

        class Negative(Transformation):
            labels = ("negative",)

            def __call__(self, images, draws):
                return [-images]

    All randomness comes in as `draws`, which depend on the seed, the step and the image's place in the batch alone.
    """

    labels: tuple[str, ...]
    """A name for each class that it makes."""

    draws: tuple[int, ...] = (0,)
    """Shape of the uniform draws that it needs for an image."""

    of_identity: bool = False
    """Whether it is applied to class 0 as C sees it, half of which carry an autoencoded patch; else to the images."""

    @classmethod
    def from_settings(cls, settings: Settings, size: int) -> "Transformation":
        """One for a training with these settings, of images of this side; by default made without arguments."""
        return cls()

    @abc.abstractmethod
    def __call__(self, images: tf.Tensor, draws: tf.Tensor) -> list[tf.Tensor]:
        """Transforms a batch.

        Args:
          images: float32 [n, size, size, 3] in [-1, 1].
          draws: float32 [n, *self.draws], uniform in [0, 1).

        Returns:
          a tensor like `images` for each label.
        """
