"""Features with thumbnails, for TensorBoard's projector."""

from lci_tf.plotting import projector
from lci_tf.reporting.features import image_atlas
from lci_tf.reporting.materials import Materials, PaperFigure


def draw(materials: Materials) -> dict[str, str]:
    found, folder = materials.once(image_atlas), materials.folder / "projector"
    projector.write(folder, found.features, found.thumbnails, found.facts)
    return {"projector": f"tensorboard --logdir={folder}"}


PROJECTOR = PaperFigure(draw, images="test_source")
