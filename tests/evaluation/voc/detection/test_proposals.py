import numpy as np
import pytest

from lci_tf.data import open_source
from lci_tf.errors import InputError
from lci_tf.evaluation.voc.detection import annotations, boxes, proposals, selective_search


@pytest.fixture(scope="module")
def voc(tmp_path_factory, write_voc):
    return write_voc(tmp_path_factory.mktemp("voc"), "test", 3)


@pytest.fixture(scope="module")
def annotated(voc):
    return annotations.read(open_source("voc/2007", "test", [voc]))


# --- Selective search ---


@pytest.fixture(scope="module")
def searched(annotated, tmp_path_factory):
    pytest.importorskip("cv2")
    cache = tmp_path_factory.mktemp("cache")
    return cache, selective_search.search([one.path for one in annotated], cache, processes=2)


def test_proposals_are_within_their_image(annotated, searched):
    for one, found in zip(annotated, searched[1], strict=True):
        assert found.dtype == np.float32 and found.shape[1] == 4
        np.testing.assert_array_equal(found, boxes.clipped(found, one.width, one.height))


def test_what_stands_out_is_found_to_the_pixel(tmp_path):
    cv2 = pytest.importorskip("cv2")
    image = np.full([120, 160, 3], 60, np.uint8)
    image[30:90, 40:121] = (30, 200, 220)
    cv2.imwrite(str(tmp_path / "one.png"), image)
    assert selective_search.search_one(tmp_path / "one.png", tmp_path / "one.npy") is None
    found = np.load(tmp_path / "one.npy")  # with rings along the edge, which selective search smooths
    for box in ([0, 0, 159, 119], [40, 30, 120, 89]):
        assert np.abs(found - box).max(axis=1).min() <= 1


def test_a_second_search_takes_what_was_kept_and_searches_only_the_rest(annotated, searched, monkeypatch):
    cache, first = searched
    files = sorted(cache.iterdir())
    assert len(files) == 3 and not [f for f in files if f.name.startswith(".")]
    np.save(files[0], np.array([[1, 2, 3, 4]], np.float32))  # to see that it is taken
    files[1].unlink()  # as if interrupted
    again = selective_search.search([one.path for one in annotated], cache, processes=1)
    assert sum(len(boxes) == 1 for boxes in again) == 1
    assert sum(np.array_equal(a, b) for a, b in zip(first, again, strict=True)) == 2
    monkeypatch.setattr(selective_search, "_search_all", None)  # is not called any more
    selective_search.search([one.path for one in annotated], cache)


def test_an_image_that_changed_is_searched_anew(searched, voc, tmp_path):
    path = tmp_path / "000000.jpg"
    path.write_bytes((voc / "JPEGImages" / "000001.jpg").read_bytes())
    before = len(list(searched[0].iterdir()))
    selective_search.search([path], searched[0])  # the same contents elsewhere
    assert len(list(searched[0].iterdir())) == before


def test_an_image_of_one_colour_has_itself_as_its_proposal(write_png, tmp_path):
    cv2 = pytest.importorskip("cv2")
    path = tmp_path / "grey.png"
    cv2.imwrite(str(path), np.full([40, 60, 3], 128, np.uint8))
    assert selective_search.search_one(path, tmp_path / "kept.npy") is None
    np.testing.assert_array_equal(np.load(tmp_path / "kept.npy"), [[0, 0, 59, 39]])


def test_images_and_kept_files_that_cannot_be_read_are_told_in_a_line(tmp_path, searched, annotated):
    path = tmp_path / "broken.jpg"
    path.write_text("no image")
    with pytest.raises(InputError, match=r"broken.jpg: OpenCV cannot read this image"):
        selective_search.search([path], tmp_path / "cache", processes=1)
    sorted(searched[0].iterdir())[0].write_bytes(b"")
    with pytest.raises(InputError, match=r"the proposals kept for .* are damaged; delete the file"):
        selective_search.search([one.path for one in annotated], searched[0])


# --- Files ---


def write_csv(path, annotated, extra=""):
    lines = [f"{one.number},{x + 1},3,{x + 9},12.5" for one in annotated for x in (0, 5)]
    path.write_text("\n".join(["image,xmin,ymin,xmax,ymax", *lines]) + "\n" + extra)


def test_a_table_counts_pixels_from_1(annotated, tmp_path):
    write_csv(tmp_path / "boxes.csv", annotated)
    found = proposals.read([tmp_path / "boxes.csv"], annotated)
    assert len(found) == 3
    for one in found:
        np.testing.assert_array_equal(one, np.float32([[0, 2, 8, 11.5], [5, 2, 13, 11.5]]))


def test_matlab_files_as_for_fast_rcnn_begin_with_the_upper_edge(annotated, tmp_path):
    import scipy.io

    images, cells = (np.empty([3, 1], object) for _ in range(2))
    for i, one in enumerate(annotated):
        images[i, 0], cells[i, 0] = one.number, np.array([[3, 1, 12, 9 + i]], np.float64)
    scipy.io.savemat(tmp_path / "boxes.mat", {"images": images, "boxes": cells})
    for i, one in enumerate(proposals.read([tmp_path / "boxes.mat"], annotated)):
        np.testing.assert_array_equal(one, [[0, 2, 8 + i, 11]])


def test_several_files_may_share_the_images(annotated, tmp_path):
    write_csv(tmp_path / "a.csv", annotated[:1])
    write_csv(tmp_path / "b.csv", annotated[1:])
    assert len(proposals.read([tmp_path / "a.csv", tmp_path / "b.csv"], annotated)) == 3


def test_the_digest_changes_with_a_proposal(annotated, tmp_path):
    write_csv(tmp_path / "a.csv", annotated)
    found = proposals.read([tmp_path / "a.csv"], annotated)
    other = [boxes + (i == 2) for i, boxes in enumerate(found)]
    assert proposals.digest(found) == proposals.digest(found[:]) != proposals.digest(other)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("000000,1,2,3\n", "line 8: expected an image and four numbers, got '000000,1,2,3'"),
        ("000000,1,2,3,x\n", "line 8: expected an image and four numbers, got '000000,1,2,3,x'"),
        ("000001,1,1,400,20\n", "a proposal for 000001 is 1, 1, 400, 20, which is not a box within its"),
        ("000001,0,1,4,20\n", "a proposal for 000001 is 0, 1, 4, 20, which is not a box within its"),
        ("000001,9,1,4,20\n", "a proposal for 000001 is 9, 1, 4, 20, which is not a box within its"),
    ],
)
def test_lines_that_are_no_proposals_are_told(annotated, tmp_path, extra, message):
    write_csv(tmp_path / "boxes.csv", annotated, extra)
    with pytest.raises(InputError, match=message):
        proposals.read([tmp_path / "boxes.csv"], annotated)


def test_proposals_for_other_images_are_told_in_a_line(annotated, tmp_path):
    write_csv(tmp_path / "boxes.csv", annotated[:2])
    expected = "has proposals for 2 images, but none for 1 that are needed, such as 000002; are they for other images"
    with pytest.raises(InputError, match=expected):
        proposals.read([tmp_path / "boxes.csv"], annotated)


def test_other_files_are_told_in_a_line(annotated, tmp_path):
    with pytest.raises(InputError, match=r"--proposals=.*none.csv: no such file"):
        proposals.read([tmp_path / "none.csv"], annotated)
    (tmp_path / "a.csv").write_text("1,2,3\n")
    with pytest.raises(InputError, match=r"a.csv: expected a first line image,xmin,ymin,xmax,ymax, got '1,2,3'"):
        proposals.read([tmp_path / "a.csv"], annotated)
    (tmp_path / "a.mat").write_text("not MATLAB's")
    with pytest.raises(InputError, match=r"a.mat: expected a MATLAB file with images and boxes"):
        proposals.read([tmp_path / "a.mat"], annotated)
