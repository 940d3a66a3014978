"""The figures of a paper, made from a run: what each is made of (`materials`), and a module for each.

`lci_tf.figures` makes them by these names. A new one is a module with a `PaperFigure`, and a line here.
"""

from typing import TYPE_CHECKING

from lci_tf.config import names

if TYPE_CHECKING:
    from lci_tf.reporting.materials import PaperFigure

__all__ = ["FIGURES", "find_figure"]

FIGURES = {
    "curves": "lci_tf.reporting.curves_figure:CURVES",
    "tiles": "lci_tf.reporting.tiles_figure:TILES",
    "transformations": "lci_tf.reporting.transformations_figure:TRANSFORMATIONS",
    "lci": "lci_tf.reporting.lci_figure:LCI",
    "patches": "lci_tf.reporting.patches_figure:PATCHES",
    "filters": "lci_tf.reporting.filters_figure:FILTERS",
    "mean_image": "lci_tf.reporting.mean_image_figure:MEAN_IMAGE",
    "neighbours": "lci_tf.reporting.neighbours_figure:NEIGHBOURS",
    "knn": "lci_tf.reporting.knn_figure:KNN",
    "map": "lci_tf.reporting.map_figure:MAP",
    "projector": "lci_tf.reporting.projector_figure:PROJECTOR",
}


def find_figure(name: str) -> "PaperFigure":
    """The `materials.PaperFigure` of this name, without importing any other."""
    figure: PaperFigure = names.load(FIGURES[name])
    return figure
