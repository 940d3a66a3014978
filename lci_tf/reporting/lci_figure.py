"""Images, and the same with an inpainted patch, framed."""

from matplotlib.figure import Figure

from lci_tf.plotting import panels
from lci_tf.plotting.pictures import levels
from lci_tf.reporting.examples import examples_with_patches
from lci_tf.reporting.materials import Materials, PaperFigure


def draw(materials: Materials) -> dict[str, Figure]:
    shown = examples_with_patches(materials)
    assert shown.inpainted is not None
    images, inpainted = levels(shown.images), levels(shown.inpainted)
    return {"lci": panels.lci(images, inpainted, shown.patches.places, materials.settings.patch_size)}


LCI = PaperFigure(draw)
