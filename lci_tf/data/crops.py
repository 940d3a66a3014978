"""Which part of an image becomes a crop."""

import dataclasses

import tensorflow as tf

from lci_tf.data import draws
from lci_tf.errors import InputError
from lci_tf.imaging import images


@dataclasses.dataclass(frozen=True)
class Crops:
    """How an image becomes a crop: see `images.preprocess`."""

    crop_size: int
    resize: float

    def __post_init__(self):
        if self.resize < self.crop_size:
            raise InputError(f"resize {self.resize} is smaller than crop_size {self.crop_size}")

    numbers = 3  # of a view
    shows_pixels = True  # of the image, where it need not be shrunk

    def cut(self, image: tf.Tensor, views: tf.Tensor) -> tf.Tensor:
        """uint8 [height, width, 3] to uint8 [n, crop_size, crop_size, 3]."""
        return images.crop(image, views, self.crop_size, self.resize)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScaledCrops(Crops):
    """Crops of images at some scale: see `images.crop_at_scale`."""

    resize: float | None = None  # type: ignore[assignment]  # None: not shrunk
    scales: tuple[float, float]
    short_side: float | None = None

    def __post_init__(self):
        # From a JPEG that will be shrunk in any case, not all pixels are needed.
        object.__setattr__(self, "resize", self.short_side and max(self.scales[1] * self.short_side, self.crop_size))

    numbers = 4
    shows_pixels = False

    def cut(self, image, views):
        return images.crop_at_scale(image, views, self.crop_size, self.scales, self.short_side)


@dataclasses.dataclass(frozen=True)
class RandomViews:
    """So many random views of each image, a function of the seed and the image's number."""

    count: int
    seed: int

    def of(self, indices: tf.Tensor, crops: Crops) -> tf.Tensor:
        """float32 [n, count, numbers of a view]"""

        def draw(index):
            return tf.random.stateless_uniform([self.count, crops.numbers], draws.key(self.seed, draws.VIEW, index))

        return tf.map_fn(draw, indices, fn_output_signature=tf.float32)
