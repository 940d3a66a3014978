"""C's first filters."""

import tensorflow as tf
from matplotlib.figure import Figure

from lci_tf.plotting import panels
from lci_tf.reporting.materials import Materials, PaperFigure


def draw(materials: Materials) -> dict[str, Figure]:
    maps: tf.keras.Model = materials.model.maps
    return {"filters": panels.filters(maps.weights[0].numpy())}


FILTERS = PaperFigure(draw, images=None)
