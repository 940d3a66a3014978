"""A map on which images with like features lie together."""

from matplotlib.figure import Figure

from lci_tf.evaluation.neighbours.atlas import on_a_plane
from lci_tf.plotting import panels
from lci_tf.reporting.features import image_atlas, named
from lci_tf.reporting.materials import Materials, PaperFigure


def draw(materials: Materials) -> dict[str, Figure]:
    found, source = materials.once(image_atlas), materials.test_source
    labels, names = (found.labels, source.label_names) if source.label_kind == "class" else (None, ())
    return {
        named("map", layer, materials): panels.image_map(
            on_a_plane(features, materials.seed), found.thumbnails, labels, names
        )
        for layer, features in found.features.items()
    }


MAP = PaperFigure(draw, images="test_source")
