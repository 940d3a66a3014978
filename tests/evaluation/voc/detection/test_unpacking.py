import dataclasses

import numpy as np
import pytest
from PIL import Image

from lci_tf.data import open_source
from lci_tf.data.sets.voc import CLASSES
from lci_tf.evaluation.voc.detection import annotations, unpacking


@pytest.fixture
def prepared(tmp_path, write_voc):
    """VOC as tensorflow-datasets would have prepared it, and the folders that it was made of."""
    tfds = pytest.importorskip("tensorflow_datasets")
    voc = write_voc(tmp_path / "voc", "test", 3)
    truth, builder = (
        annotations.read(open_source("voc/2007", "test", [voc])),
        tfds.builder("voc/2007", data_dir=tmp_path),
    )

    def example(one):
        shares = np.float32([[t + 1, left + 1, b + 1, r + 1] for left, t, r, b in one.boxes])
        shares /= np.float32([one.height, one.width] * 2)
        objects = [
            {
                "label": CLASSES[number],
                "bbox": tfds.features.BBox(*share),
                "is_difficult": k == 0,
                "is_truncated": False,
                "pose": 0,
            }
            for k, (number, share) in enumerate(zip(one.classes, shares, strict=True))
        ]
        names = sorted({CLASSES[number] for number in one.classes})
        return {"image": np.asarray(Image.open(one.path)), "image/filename": f"{one.number}.jpg", "objects": objects,
                "labels": names, "labels_no_difficult": names[:1]}  # fmt: skip

    tfds.disable_progress_bar()
    tfds.dataset_builders.store_as_tfds_dataset(
        name="voc", version=str(builder.version), config="2007", features=builder.info.features, data_dir=tmp_path,
        split_datasets={"test": [(i, example(one)) for i, one in enumerate(truth)]}, disable_shuffling=True,
    )  # fmt: skip
    return open_source("voc/2007", "test", [tmp_path]), truth


def test_unpacked_images_have_the_same_objects(prepared, tmp_path):
    source, truth = prepared
    unpacked = unpacking.unpack(source, tmp_path / "images")
    assert unpacked.count == 3 and unpacked.split == "test"
    for one, other in zip(annotations.read(unpacked), truth, strict=True):
        assert (one.number, one.width, one.height) == (other.number, other.width, other.height)
        np.testing.assert_array_equal(one.boxes, other.boxes)
        np.testing.assert_array_equal(one.classes, other.classes)
        assert one.difficult.tolist() == [True] + [False] * (len(one.boxes) - 1)
    (place,) = (tmp_path / "images").iterdir()
    for name in ("000000.xml", "000001.xml"):
        (place / "Annotations" / name).write_text("<annotation/>")
    again = annotations.read(unpacking.unpack(source, tmp_path / "images"))
    assert [len(one.boxes) for one in again] == [0, 0, 2]  # what is complete is not written again
    others = dataclasses.replace(source)
    others.__dict__["fingerprint"] = {"contents": "0" * 64, "labels": None}
    again = annotations.read(unpacking.unpack(others, tmp_path / "images"))
    assert [len(one.boxes) for one in again] == [len(one.boxes) for one in truth]  # other images are
