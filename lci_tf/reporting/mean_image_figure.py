"""The mean of the images, and the places where it gives away which way is up."""

import numpy as np
from matplotlib.figure import Figure

from lci_tf.data import mean_image, share
from lci_tf.data.pipeline import Crops
from lci_tf.plotting import panels
from lci_tf.reporting.materials import Materials, PaperFigure


def draw(materials: Materials) -> dict[str, Figure]:
    side, source = materials.settings.crop_size, share.at_most(materials.source, materials.mean_images)
    mean = mean_image.mean_image(source, Crops(side, resize=side), materials.report(source))  # of whole images
    patch_size = side // 4
    places = mean_image.telling_patches(mean, patch_size)
    return {"mean_image": panels.mean_image(mean.round().astype(np.uint8), places, patch_size)}


MEAN_IMAGE = PaperFigure(draw, shows_weights=False)
