"""Patches on their way through F: as they were, erased, inpainted, and autoencoded."""

from matplotlib.figure import Figure

from lci_tf.plotting import panels
from lci_tf.plotting.pictures import levels
from lci_tf.reporting.examples import examples_with_patches
from lci_tf.reporting.materials import Materials, PaperFigure


def draw(materials: Materials) -> dict[str, Figure]:
    given = examples_with_patches(materials).patches
    rows = {name: getattr(given, name) for name in ("original", "erased", "inpainted", "autoencoded")}
    return {"patches": panels.patches({name: levels(row) for name, row in rows.items() if row is not None})}


PATCHES = PaperFigure(draw)
