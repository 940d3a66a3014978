"""Pictures of a test: detections, precision over recall, and the most confident mistakes."""

import pathlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from matplotlib.figure import Figure
from PIL import Image

from lci_tf.data.sets.voc import CLASSES
from lci_tf.evaluation.voc.detection import boxes, judging
from lci_tf.evaluation.voc.detection.annotations import Annotated
from lci_tf.evaluation.voc.detection.judging import IGNORED, RIGHT, WRONG, Curve, Detections
from lci_tf.evaluation.voc.task import show_in_tensorboard
from lci_tf.imaging import images
from lci_tf.plotting import drawn_boxes, pictures, plots
from lci_tf.plotting.drawn_boxes import Drawn
from lci_tf.plotting.plots import PrecisionRecall

REGIONS, FOUND, MISTAKES = "training_regions.png", "detections.png", "worst_mistakes.png"
CURVES = "precision_recall.png"
_COLOURS = {RIGHT: drawn_boxes.RIGHT, WRONG: drawn_boxes.WRONG, IGNORED: drawn_boxes.NEITHER}
_COLUMNS, _SHOWN, _PER_IMAGE = 4, 12, 6
_MISTAKES = 16
_NEAR = 0.1  # smallest overlap with an object that can explain a mistake


def save_regions(batch: dict[str, tf.Tensor], path: pathlib.Path) -> None:
    """Draws training regions: in each image, those of objects, and as many of the background."""
    tiles = []
    for i, image in enumerate(images.unscale(batch["images"]).numpy()):
        regions, labels = batch["boxes"][i].numpy(), batch["labels"][i].numpy()
        (foreground,) = np.nonzero(labels)
        (background,) = np.nonzero((labels == 0) & (batch["weights"][i].numpy() > 0))
        few = [Drawn(regions[k], drawn_boxes.WRONG, width=1) for k in background[: len(foreground)]]
        few += [Drawn(regions[k], drawn_boxes.RIGHT, CLASSES[labels[k] - 1], 1) for k in foreground]
        caption = f"{len(foreground)} regions of objects, {len(background)} of the background"
        tiles.append(drawn_boxes.tile(image, few, caption, side=420))
    pictures.save(path, pictures.grid(np.stack(tiles), columns=2))


def save_test(
    folder: pathlib.Path,
    annotated: Sequence[Annotated],
    found: Detections,
    judged: np.ndarray,
    curves: Sequence[Curve],
    precisions: Sequence[float],
) -> None:
    """Draws all pictures of a test, as files and in TensorBoard; for the arguments see `judging`."""
    plots.save(precision_recall(curves, precisions), folder / CURVES)
    pictures.save(folder / FOUND, detections(annotated, found, judged))
    if (judged == WRONG).any():
        pictures.save(folder / MISTAKES, worst_mistakes(annotated, found, judged))
    show_in_tensorboard(folder, (REGIONS, FOUND, MISTAKES, CURVES))


def precision_recall(curves: Sequence[Curve], precisions: Sequence[float]) -> Figure:
    """Precision over recall of each class that has objects, with its average precision."""
    named = zip(CLASSES, curves, precisions, strict=True)
    return plots.precision_recall([
        PrecisionRecall(f"{name}  {100 * mean:.1f}", of.recall, of.precision) for name, of, mean in named if of.objects
    ])  # fmt: skip


def detections(annotated: Sequence[Annotated], found: Detections, judged: np.ndarray) -> np.ndarray:
    """Some test images with their most confident detections: green is right, orange is wrong, white is the truth."""
    chosen = np.unique(np.linspace(0, len(annotated) - 1, _SHOWN).astype(int))
    tiles = []
    for number in chosen:
        (mine,) = np.nonzero(found.images == number)
        mine = mine[np.argsort(-found.scores[mine], kind="stable")][:_PER_IMAGE]
        drawn = [_detection(found, judged, i) for i in mine[::-1]]
        tiles.append(drawn_boxes.tile(_image(annotated[number]), _truth(annotated[number]) + drawn))
    return pictures.grid(np.stack(tiles), _COLUMNS)


def worst_mistakes(annotated: Sequence[Annotated], found: Detections, judged: np.ndarray) -> np.ndarray:
    """The most confident mistakes, at most one per image, each with what is wrong."""
    (wrong,) = np.nonzero(judged == WRONG)
    wrong = wrong[np.argsort(-found.scores[wrong], kind="stable")]
    _, first_of_image = np.unique(found.images[wrong], return_index=True)
    tiles = []
    for i in wrong[np.sort(first_of_image)][:_MISTAKES]:
        one = annotated[found.images[i]]
        drawn = [*_truth(one), _detection(found, judged, i)]
        tiles.append(drawn_boxes.tile(_image(one), drawn, what_is_wrong(one, found.boxes[i], found.classes[i])))
    return pictures.grid(np.stack(tiles), _COLUMNS)


def what_is_wrong(one: Annotated, box: np.ndarray, number: int) -> str:
    """What is wrong with a detection, in a few words."""
    if not len(one.boxes):
        return "nothing there"
    overlaps = boxes.iou(box[np.newaxis], one.boxes)[0]
    same = np.where(one.classes == number, overlaps, 0.0)
    if same.max() >= judging.LEAST_OVERLAP:
        return "found twice"
    if same.max() >= _NEAR and same.max() >= overlaps.max() / 2:
        return "in the wrong place"
    if overlaps.max() >= _NEAR:
        return f"really: {CLASSES[one.classes[overlaps.argmax()]]}"
    return "nothing there"


def _detection(found, judged, i):
    word = f"{CLASSES[found.classes[i]]} {100 * found.scores[i]:.0f}"
    return Drawn(found.boxes[i], _COLOURS[judged[i]], word)


def _truth(one):
    return [
        Drawn(box, drawn_boxes.NEITHER if difficult else drawn_boxes.TRUTH, width=1)
        for box, difficult in zip(one.boxes, one.difficult, strict=True)
    ]


def _image(one):
    with Image.open(one.path) as image:
        return np.asarray(image.convert("RGB"))
