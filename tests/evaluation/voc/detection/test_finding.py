import numpy as np
import pytest
import tensorflow as tf

from lci_tf.config import voc_protocols
from lci_tf.evaluation.voc.detection import boxes, finding
from lci_tf.evaluation.voc.detection.annotations import Annotated
from lci_tf.evaluation.voc.detection.examples import Images

PROTOCOL = voc_protocols.resolve("detection", "fast_rcnn", {"short_side": 120})


class Says:
    """In the place of a detector: says the same whatever it is shown, and notes what that was."""

    def __init__(self, probabilities, moves=None):
        self._logits = np.log(np.float32(probabilities) + 1e-9)
        count, classes = self._logits.shape
        self._moves = np.zeros([count, classes - 1, 4], np.float32) if moves is None else moves
        self.boxes = tf.Variable(tf.zeros([count, 4]))

    def maps(self, images):
        return images

    def regions(self, maps, boxes):
        self.boxes.assign(boxes[0])
        return self._logits, self._moves


def find(detector, proposals, size=(100, 200), protocol=PROTOCOL):
    finder = finding.Finder(detector, protocol)
    found = finder.find(np.zeros([*size, 3], np.uint8), np.float32(proposals))
    return {name: value.numpy() for name, value in found.items()}


def test_of_boxes_of_a_class_that_overlap_only_the_surest_is_kept():
    proposals = [[10, 10, 49, 49], [12, 10, 51, 49], [120, 10, 159, 49]]
    found = find(Says([[0.1, 0.7, 0.2], [0.1, 0.9, 0.0], [0.2, 0.3, 0.5]]), proposals)
    assert found["classes"].tolist() == [0, 1, 0, 1]  # of class 1 the first and the last are apart
    np.testing.assert_allclose(found["scores"], [0.9, 0.5, 0.3, 0.2], atol=1e-5)
    np.testing.assert_allclose(found["boxes"][:3], [proposals[1], proposals[2], proposals[2]], atol=1e-4)


@pytest.mark.parametrize(("right", "kept"), [(19, 2), (20, 1)])
def test_overlaps_count_the_last_pixel(right, kept):
    # 10×10 pixels beside those of 10×20 … 21 that begin 4 further: 60 of 200 or of 210 pixels.
    first, second = [0, 0, 9, 9], [4, 0, 4 + right - 4, 9]
    overlap = boxes.iou(np.float32([first]), np.float32([second]))[0, 0]
    assert overlap == pytest.approx(60 / (100 + 10 * (right - 3) - 60))
    protocol = voc_protocols.resolve("detection", "fast_rcnn", {"suppressed": (60 / 200 + 60 / 210) / 2})
    found = find(Says([[0.1, 0.9], [0.2, 0.8]]), [first, second], protocol=protocol)
    assert len(found["scores"]) == (1 if overlap > protocol.suppressed else 2) == 3 - kept


def test_what_is_too_unsure_is_left_out_and_at_most_so_many_are_kept():
    proposals = [[20 * i, 0, 20 * i + 9, 9] for i in range(8)]
    sure = np.linspace(0.01, 0.9, 8)
    found = find(Says(np.stack([1 - sure, sure], 1)), proposals)
    np.testing.assert_allclose(found["scores"], sure[sure >= 0.05][::-1], atol=1e-5)
    few = voc_protocols.resolve("detection", "fast_rcnn", {"most": 3})
    assert len(find(Says(np.stack([1 - sure, sure], 1)), proposals, protocol=few)["scores"]) == 3


def test_boxes_are_moved_clipped_and_in_the_pixels_that_were_given():
    proposals, wanted = np.float32([[10, 10, 49, 49]]), np.float32([[20, 5, 189, 64]])
    detector = Says([[0.1, 0.9]], boxes.targets(proposals, wanted)[:, None])
    found = find(detector, proposals, size=(100, 150))
    np.testing.assert_allclose(found["boxes"], [[20, 5, 149, 64]], atol=1e-3)
    # The network sees the image at 120 pixels for 100.
    np.testing.assert_allclose(detector.boxes, [[12, 12, 59, 59]], atol=1e-4)


def test_the_long_side_is_kept_within_its_limit():
    detector = Says([[0.1, 0.9]])
    find(detector, [[0, 0, 399, 99]], size=(100, 400))  # at most 1,000 for 600: 200
    np.testing.assert_allclose(detector.boxes, [[0, 0, 199, 49]], atol=1e-4)


@pytest.fixture
def of(tmp_path, write_png):
    annotated = []
    for i in range(5):
        write_png(f"{i}.png", 30 + i, 40)
        nothing = np.zeros([0, 4], np.float32)
        annotated.append(Annotated(tmp_path / f"{i}.png", 40, 30 + i, nothing, np.zeros(0, int), np.zeros(0, bool)))
    return Images(annotated, [np.float32([[i, 0, 20 + i, 20]]) for i in range(5)])


def test_a_test_that_was_interrupted_goes_on_where_it_was(of, tmp_path, monkeypatch):
    monkeypatch.setattr(finding, "_PART", 2)
    finder = finding.Finder(Says([[0.1, 0.9]]), PROTOCOL)
    whole = finder.find_all(of, tmp_path / "whole")
    assert whole.images.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(whole.boxes, np.concatenate(of.proposals), atol=1e-4)

    for place in ("000002.npz", "000004.npz"):
        (tmp_path / "whole" / place).unlink()
    finder = finding.Finder(Says([[0.2, 0.8]]), PROTOCOL)
    again = finder.find_all(of, tmp_path / "whole")
    np.testing.assert_allclose(again.scores, [0.9, 0.9, 0.8, 0.8, 0.8], atol=1e-5)
    np.testing.assert_array_equal(again.boxes, whole.boxes)


def test_an_image_that_cannot_be_decoded_is_told_in_a_line(of, tmp_path, refusal):
    contents = of.annotated[2].path.read_bytes()
    of.annotated[2].path.write_bytes(contents[: len(contents) // 2])
    finder = finding.Finder(Says([[0.1, 0.9]]), PROTOCOL)
    said = refusal(finder.find_all, of, tmp_path / "found")
    assert said == f"{of.annotated[2].path}: is a PNG file that is truncated or damaged"
