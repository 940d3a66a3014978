"""Features of the images that figures show."""

from lci_tf.data import share
from lci_tf.data.pipeline import Crops
from lci_tf.evaluation.neighbours import knn_evaluation
from lci_tf.evaluation.neighbours.atlas import Atlas, atlas
from lci_tf.reporting.materials import Materials

_BATCH = 32


def network(materials: Materials) -> knn_evaluation.Network:
    """C, with the layers that are looked at."""
    crops = Crops(materials.settings.crop_size, materials.settings.resize)
    return knn_evaluation.Network(materials.run.path.name, materials.model.only(materials.layers), crops)


def protocol(materials: Materials, views: str) -> knn_evaluation.KnnProtocol:
    """The protocol of `lci_tf.knn`, with these crops of an image."""
    return knn_evaluation.KnnProtocol(views, False, materials.seed, _BATCH, materials.max_bad_images, materials.folder)


def image_atlas(materials: Materials) -> Atlas:
    """Some of the images, with a feature for each layer."""
    source, seen_by = share.at_most(materials.test_source, materials.map_images), materials.once(network)
    return atlas(seen_by.model.maps, source, seen_by.crops, materials.report(source), materials.folder)


def named(figure: str, layer: str, materials: Materials) -> str:
    """The name of a layer's figure: with the layer, if there are several."""
    return figure if len(materials.layers) == 1 else f"{figure}_{layer}"
