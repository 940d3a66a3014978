"""T_5, limited context inpainting (equations 2 to 4 of the paper): everything but the inpainter F itself."""

import numpy as np
import tensorflow as tf

from lci_tf.config.settings import Settings
from lci_tf.data.draws import PATCH
from lci_tf.transforms import patches as patching


class LimitedContextInpainting:
    """Crops a patch e from an image, hides its centre from F, and pastes F's output r back.

    Not a `Transformation`, because its pixels come from F:

        places = lci.place(draws, size)
        e = lci.crop(images, places)
        r = F(lci.erase_centre(e, noise))
        inpainted = lci.paste(images, r, places)
    """

    labels = ("lci",)
    draws = (2,)
    is_inpainted = True
    drawn_as = ("patch", PATCH)

    def __init__(self, patch_size: int, border: int, noise_scale: float):
        self.patch_size, self.border, self.noise_scale = patch_size, border, noise_scale
        mask = np.zeros([patch_size, patch_size, 1], np.float32)
        mask[border:-border, border:-border] = 1
        self.mask = mask
        """m, float32 [p, p, 1]: 1 in the centre of a patch of p pixels, 0 on its border."""

    @classmethod
    def from_settings(cls, settings: Settings, size: int) -> "LimitedContextInpainting":
        return cls(settings.patch_size, settings.border, settings.noise_scale)

    def place(self, draws: tf.Tensor, size: int) -> tf.Tensor:
        """From uniform draws [n, 2] to Δ, int64 [n, 2], the patch's upper left corner; all are equally likely."""
        return patching.random_places(draws, size, self.patch_size)

    def crop(self, images: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
        """e, equation 2: from images [n, size, size, 3] to patches [n, p, p, 3]."""
        return patching.crop(images, places, self.patch_size)

    def erase_centre(self, patches: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
        """e ⊙ (1 - m) + z ⊙ m, the input of F in equation 3; noise is drawn from N(0, 1), [n, p, p, 3]."""
        # Selected, not multiplied, as infinity or NaN in the centre would survive multiplication by 0.
        return tf.where(self.mask > 0, self.noise_scale * noise, patches)

    def paste(self, images: tf.Tensor, patches: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
        """T_5, equation 4: the images, with patches [n, p, p, 3] pasted over them."""
        return patching.paste(images, patches, places)
