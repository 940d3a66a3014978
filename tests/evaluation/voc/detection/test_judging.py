import contextlib
import io
import pathlib

import numpy as np
import pytest

from lci_tf.evaluation.voc.detection import judging
from lci_tf.evaluation.voc.detection.annotations import Annotated
from lci_tf.evaluation.voc.detection.judging import IGNORED, RIGHT, WRONG, Detections


def image(*objects):
    """`objects` are (class, box) or (class, box, difficult)."""
    return Annotated(
        path=pathlib.Path("JPEGImages/000001.jpg"),
        width=200,
        height=200,
        boxes=np.array([o[1] for o in objects], np.float32).reshape(-1, 4),
        classes=np.array([o[0] for o in objects], np.int64),
        difficult=np.array([len(o) > 2 and o[2] for o in objects], bool),
    )


def found(*detections):
    """`detections` are (image, class, score, box)."""
    images, classes, scores, boxes = zip(*detections, strict=True) if detections else ((), (), (), ())
    return Detections(
        np.array(images, np.int64),
        np.array(classes, np.int64),
        np.array(scores, np.float32),
        np.array(boxes, np.float32).reshape(-1, 4),
    )


def judge(detections, images, number=0, points=None):
    judged = judging.verdicts(detections, images)
    return judging.average_precision(
        judging.curve(detections, judged, images, number), points
    ), judged.tolist()  # fmt: skip


HERE, THERE = (10, 10, 49, 49), (100, 100, 139, 139)


def test_of_several_detections_of_an_object_only_the_surest_is_right():
    images = [image((0, HERE), (0, THERE))]
    detections = found((0, 0, 0.5, HERE), (0, 0, 0.9, (11, 10, 49, 49)), (0, 0, 0.7, THERE))
    value, judged = judge(detections, images)
    assert judged == [WRONG, RIGHT, RIGHT]
    assert value == 1.0  # both were found before the duplicate
    value, judged = judge(found((0, 0, 0.9, HERE), (0, 0, 0.8, HERE), (0, 0, 0.7, THERE)), images)
    assert judged == [RIGHT, WRONG, RIGHT]
    assert value == pytest.approx((1 + 2 / 3) / 2)


def test_a_detection_belongs_to_the_object_it_overlaps_most_even_if_that_was_found_before():
    # As VOC has it. COCO would give the second detection to the other object.
    images = [image((0, (0, 0, 99, 99)), (0, (0, 0, 99, 79)))]
    detections = found((0, 0, 0.9, (0, 0, 99, 99)), (0, 0, 0.8, (0, 0, 99, 95)))
    assert judge(detections, images)[1] == [RIGHT, WRONG]


def test_difficult_objects_count_neither_as_found_nor_as_missed():
    images = [image((0, HERE, True), (0, THERE))]
    value, judged = judge(found((0, 0, 0.9, HERE), (0, 0, 0.8, HERE), (0, 0, 0.7, THERE)), images)
    assert judged == [IGNORED, IGNORED, RIGHT]  # however often it was found
    assert value == 1.0
    assert judge(found((0, 0, 0.7, THERE)), images)[0] == 1.0  # and it need not be


def test_a_class_without_objects_has_no_average_precision_and_one_that_is_never_found_has_0():
    images = [image((0, HERE), (1, THERE, True))]
    nothing = found()
    assert judge(nothing, images, 0)[0] == 0.0
    assert judge(nothing, images, 0, points=11)[0] == 0.0
    for number in (1, 2):  # only a difficult one, and none at all
        assert np.isnan(judge(found((0, number, 0.5, THERE)), images, number)[0])


def test_boxes_must_be_of_the_same_class_and_image():
    images = [image((0, HERE)), image((1, HERE))]
    assert judge(found((0, 1, 0.9, HERE), (1, 0, 0.9, HERE)), images)[1] == [WRONG, WRONG]


def test_half_of_the_union_is_enough_and_the_last_pixel_is_part_of_a_box():
    images = [image((0, (0, 0, 9, 9)))]
    assert judge(found((0, 0, 0.5, (0, 0, 9, 4))), images)[1] == [RIGHT]  # 50 of 100 pixels
    assert judge(found((0, 0, 0.5, (0, 0, 8, 4))), images)[1] == [WRONG]
    assert judge(found((0, 0, 0.5, (0, 0, 19, 9))), images)[1] == [RIGHT]  # 100 of 200
    assert judge(found((0, 0, 0.5, (0, 0, 20, 9))), images)[1] == [WRONG]


def test_equal_scores_keep_the_order_in_which_they_came():
    images = [image((0, HERE))]
    assert judge(found((0, 0, 0.5, HERE), (0, 0, 0.5, THERE)), images) == (1.0, [RIGHT, WRONG])
    assert judge(found((0, 0, 0.5, THERE), (0, 0, 0.5, HERE)), images) == (0.5, [WRONG, RIGHT])


def test_eleven_points_by_hand():
    # Ten objects; right, wrong, right, right: recalls 0.1, 0.2, 0.3 at precisions 1, 2/3, 3/4.
    images = [image(*((0, (20 * i, 0, 20 * i + 9, 9)) for i in range(10)))]
    boxes = [images[0].boxes[i] for i in range(3)]
    detections = found((0, 0, 0.9, boxes[0]), (0, 0, 0.8, THERE), (0, 0, 0.7, boxes[1]), (0, 0, 0.6, boxes[2]))
    # Recalls 0 and 0.1, then 0.2 and 0.3: three of ten objects are a recall of 0.3, which 3 × 0.1 is above in floats.
    assert judge(detections, images, points=11)[0] == pytest.approx((2 * 1 + 2 * 0.75) / 11)
    assert judge(detections, images)[0] == pytest.approx((1 + 2 * 0.75) / 10)


def test_agrees_with_pycocotools_where_the_definitions_do():
    # Objects far apart, and no difficult one found twice: there the two differ.
    pytest.importorskip("pycocotools")
    rng = np.random.default_rng(0)
    images, detections = [], []
    for i in range(30):
        corners = 60 * np.stack(np.unravel_index(rng.permutation(9)[: rng.integers(0, 7)], (3, 3)), 1)
        boxes = np.concatenate([corners, corners + rng.integers(20, 40, corners.shape)], 1)
        classes, difficult = rng.integers(0, 3, len(boxes)), rng.random(len(boxes)) < 0.2
        images.append(image(*zip(classes, boxes, difficult, strict=True)))
        for box, number, hard in zip(boxes, classes, difficult, strict=True):
            for _ in range(rng.integers(0, 2 if hard else 4)):
                guess = number if hard or rng.random() < 0.8 else rng.integers(0, 3)
                detections.append((i, guess, 0, box + rng.integers(-6, 7, 4)))
        for _ in range(rng.integers(0, 3)):
            corner = rng.integers(0, 150, 2)
            detections.append((i, rng.integers(0, 3), 0, (*corner, *(corner + rng.integers(10, 50, 2)))))
    scores = rng.permutation(len(detections)) / len(detections)  # no ties, whose order differs
    detections = found(*((i, c, s, b) for (i, c, _, b), s in zip(detections, scores, strict=True)))
    judged = judging.verdicts(detections, images)
    assert {RIGHT, WRONG, IGNORED} == set(judged)
    for number in range(3):
        of = judging.curve(detections, judged, images, number)
        assert judging.average_precision(of, 11) == pytest.approx(
            by_pycocotools(detections, images, number, np.linspace(0, 1, 11)), abs=1e-9
        )
        every = np.arange(1, of.objects + 1) / of.objects
        assert judging.average_precision(of) == pytest.approx(
            by_pycocotools(detections, images, number, every), abs=1e-9
        )


def by_pycocotools(detections, images, number, recalls):
    """Average precision at IoU 0.5, the mean over these recalls."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    def length(box):  # with the last pixel
        left, top, right, bottom = (float(edge) for edge in box)
        return [left, top, right - left + 1, bottom - top + 1]

    truth = [
        # What is smaller than the evaluated range of areas is ignored, as difficult objects are.
        {
            "id": 1000 * i + k + 1,
            "image_id": i,
            "category_id": 1,
            "bbox": length(box),
            "area": 0 if hard else 100,
            "iscrowd": 0,
        }
        for i, one in enumerate(images)
        for k, (box, c, hard) in enumerate(zip(one.boxes, one.classes, one.difficult, strict=True))
        if c == number
    ]
    results = [
        {"image_id": int(i), "category_id": 1, "bbox": length(box), "score": float(score)}
        for i, c, score, box in zip(*detections, strict=True)
        if c == number
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        gold = COCO()
        gold.dataset = {
            "info": {},
            "images": [{"id": i} for i in range(len(images))],
            "annotations": truth,
            "categories": [{"id": 1}],
        }
        gold.createIndex()
        evaluation = COCOeval(gold, gold.loadRes(results), "bbox")
        evaluation.params.iouThrs = np.array([0.5])
        evaluation.params.recThrs = np.asarray(recalls) - 1e-9  # floats
        evaluation.params.areaRng, evaluation.params.areaRngLbl = [[1, 1e10]], ["all"]
        evaluation.params.maxDets = [1000]
        evaluation.evaluate()
        evaluation.accumulate()
    return float(evaluation.eval["precision"].mean())
