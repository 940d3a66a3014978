"""Finds objects: from pixels and proposals to detections, for tests and exports."""

import pathlib

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from lci_tf.config.voc_protocols import Detection
from lci_tf.evaluation.voc.detection import boxes, examples
from lci_tf.evaluation.voc.detection.detector import Detector
from lci_tf.evaluation.voc.detection.examples import Images
from lci_tf.evaluation.voc.detection.judging import Detections
from lci_tf.runs import export_folder

_PART = 200  # images per file of detections


class Finder(tf.Module):
    """Finds objects in images, one image at a time."""

    def __init__(self, detector: Detector, protocol: Detection):
        super().__init__()
        self._detector, self._protocol = detector, protocol

    @tf.function(input_signature=[tf.TensorSpec([None, None, 3], tf.uint8), tf.TensorSpec([None, 4], tf.float32)])
    def find(self, pixels: tf.Tensor, proposals: tf.Tensor) -> dict[str, tf.Tensor]:
        """Finds the objects in an image, the most confident detections first.

        Args:
          pixels: uint8 [height, width, 3].
          proposals: where objects may be, float32 [n, 4], see `boxes`.

        Returns:
          `"boxes"`, float32 [m, 4] in pixels of the input; `"scores"`, float32 [m]; `"classes"`, int64 [m].
        """
        protocol = self._protocol
        image = examples.resized(pixels, float(protocol.short_side), protocol.scaled(protocol.longest))
        regions = examples.carried_over(proposals, pixels, image)
        logits, moves = self._detector.regions(self._detector.maps(image[tf.newaxis]), regions[tf.newaxis])
        scores, found = tf.nn.softmax(logits)[:, 1:], boxes.moved(proposals, moves)
        found = boxes.clipped(found, tf.shape(pixels)[1], tf.shape(pixels)[0])
        # Converted, so that areas and overlaps agree with VOC's convention.
        edges = tf.gather(found + boxes.TO_EDGES, [1, 0, 3, 2], axis=2)
        kept = tf.image.combined_non_max_suppression(
            edges[tf.newaxis],
            scores[tf.newaxis],
            max_output_size_per_class=protocol.most,
            max_total_size=protocol.most,
            iou_threshold=protocol.suppressed,
            score_threshold=protocol.least_score,
            clip_boxes=False,
        )
        count = kept.valid_detections[0]
        return {
            "boxes": tf.gather(kept.nmsed_boxes[0, :count], [1, 0, 3, 2], axis=1) - boxes.TO_EDGES,
            "scores": kept.nmsed_scores[0, :count],
            "classes": tf.cast(kept.nmsed_classes[0, :count], tf.int64),
        }

    def find_all(self, of: Images, kept: pathlib.Path) -> Detections:
        """Finds the objects in all images. Detections are kept in a folder, so that an interrupted test can resume."""
        kept.mkdir(parents=True, exist_ok=True)
        parts = []
        bar = tqdm(total=len(of.annotated), desc="testing", unit=" images", dynamic_ncols=True)
        with bar, examples.one_line_errors(of.annotated):
            for first in range(0, len(of.annotated), _PART):
                place = kept / f"{first:06d}.npz"
                part = Images(of.annotated[first : first + _PART], of.proposals[first : first + _PART])
                if not place.is_file():
                    self._find_part(part, first, place, bar)
                else:
                    bar.update(len(part.annotated))
                with np.load(place) as held:
                    parts.append(Detections(**held))
        return Detections(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _find_part(self, part, first, place, bar):
        found = []
        for number, (pixels, proposals) in enumerate(examples.test_images(part), first):
            made = {name: value.numpy() for name, value in self.find(pixels, proposals).items()}
            found.append(Detections(np.full(len(made["scores"]), number), **made))
            bar.update()
        beside = place.with_name(f".{place.name}")
        with beside.open("wb") as file:
            np.savez(file, **Detections(*(np.concatenate(column) for column in zip(*found, strict=True)))._asdict())
        beside.replace(place)

    def export(self, folder: pathlib.Path) -> None:
        """Writes version 1 of a SavedModel whose default signature is `find`, unless it is there."""
        if not (folder / "1").is_dir():
            with export_folder.new_version(folder, 1) as place:
                tf.saved_model.save(self, str(place), signatures=self.find)
