"""The accuracy of k nearest neighbours, for several k, of each layer."""

from matplotlib.figure import Figure

from lci_tf.data import labelled, share
from lci_tf.errors import InputError
from lci_tf.evaluation.neighbours import knn_evaluation
from lci_tf.plotting import plots
from lci_tf.reporting.features import network, protocol
from lci_tf.reporting.materials import Materials, PaperFigure

_KS = (1, 5, 10, 20, 50, 100)


def draw(materials: Materials) -> dict[str, Figure]:
    if materials.images:
        dataset, split, folders = materials.available
        source = labelled.open_one(dataset, folders, split)
    elif materials.source.label_kind == "class":
        source = materials.source
    else:
        raise InputError("--dataset: give one with classes; the images of the run have none")
    source = share.at_most(source, materials.knn_images)
    ks = [k for k in _KS if source.count is None or k < source.count]
    crops = protocol(materials, "five")  # as the paper's figure of Places has it
    accuracies, _ = knn_evaluation.evaluate(materials.once(network), source, None, crops, ks)
    return {"knn": plots.knn_accuracy(accuracies, chance=1 / len(source.label_names))}


KNN = PaperFigure(draw, images="test_source")
