"""T_5: limited context inpainting, but for the inpainter F itself (equations 2 to 4 of the paper)."""

import numpy as np
import tensorflow as tf

from lci_tf.config.presets import Settings
from lci_tf.transforms import patches as patching


class LimitedContextInpainting:
    """Takes a patch e out of an image, hides its centre from F, and puts what F makes of it back.

    Not a `Transformation`, because its pixels come from F:

        places = lci.place(draws, size)
        e = lci.crop(images, places)
        r = F(lci.erase_centre(e, noise))
        inpainted = lci.paste(images, r, places)
    """

    labels = ("lci",)
    draws = (2,)

    def __init__(self, patch_size: int, border: int, noise_scale: float):
        self.patch_size, self.border, self.noise_scale = patch_size, border, noise_scale
        mask = np.zeros([patch_size, patch_size, 1], np.float32)
        mask[border:-border, border:-border] = 1
        self.mask = mask
        """m, float32 [p, p, 1]: 1 in the centre and 0 on the border."""

    @classmethod
    def from_settings(cls, settings: Settings, size: int) -> "LimitedContextInpainting":
        return cls(settings.patch_size, settings.border, settings.noise_scale)

    def place(self, draws: tf.Tensor, size: int) -> tf.Tensor:
        """Uniform draws [n, 2] to Δ, int64 [n, 2], the patch's upper left corner; all places are equally likely."""
        return patching.random_places(draws, size, self.patch_size)

    def crop(self, images: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
        """e, equation 2: images [n, size, size, 3] to patches [n, p, p, 3]."""
        return patching.crop(images, places, self.patch_size)

    def erase_centre(self, patches: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
        """e ⊙ (1 - m) + z ⊙ m, what F sees in equation 3; noise is N(0, 1), [n, p, p, 3]."""
        # Selected, not multiplied: infinity times 0 would shine through.
        return tf.where(self.mask > 0, self.noise_scale * noise, patches)

    def paste(self, images: tf.Tensor, patches: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
        """T_5, equation 4: images with patches [n, p, p, 3] instead of what was there."""
        return patching.paste(images, patches, places)
