"""Some images, each with those whose features are nearest."""

import numpy as np
from matplotlib.figure import Figure

from lci_tf.data import share
from lci_tf.errors import InputError
from lci_tf.evaluation.neighbours import exact_search, knn_evaluation, retrieval
from lci_tf.plotting import panels
from lci_tf.reporting.features import named, network, protocol
from lci_tf.reporting.materials import Materials, PaperFigure

_QUERIES = _NEIGHBOURS = 8


def draw(materials: Materials) -> dict[str, Figure]:
    source = share.at_most(materials.test_source, materials.knn_images)
    found = knn_evaluation.features_of(materials.once(network), source, protocol(materials, "centre"))
    if len(found.numbers) <= _NEIGHBOURS:
        raise InputError(f"{source.name} {source.split}: has only {len(found.numbers)} images that can be read")
    queries = retrieval.random_queries(found.numbers, _QUERIES, materials.seed)
    figures = {}
    for layer, features in found.layers.items():
        exact_search.normalise(features)
        retrieved = retrieval.retrieve(found, features, queries, _NEIGHBOURS)
        needed = np.union1d(queries, retrieved.numbers)
        shown = retrieval.thumbnails(source, needed)
        of_queries, of_neighbours = (shown[np.searchsorted(needed, n)] for n in (queries, retrieved.numbers))
        figure = panels.neighbours(of_queries, of_neighbours, retrieved.is_right)
        figures[named("neighbours", layer, materials)] = figure
    return figures


NEIGHBOURS = PaperFigure(draw, images="test_source")
