import numpy as np
from PIL import Image

from lci_tf.evaluation.voc.segmentation import sources
from lci_tf.evaluation.voc.segmentation.loading import Loader, of_one_size, resized


def numbers(batches, count):
    return [example.number for _ in range(count) for example in next(batches)]


def test_every_image_comes_once_in_each_epoch_and_a_place_can_be_found_again(folder):
    source, _ = sources.find_folder(folder)
    seen = numbers(Loader(source).training(seed=3, size=4), 3)
    assert sorted(seen[:6]) == sorted(seen[6:]) == list(range(6)) and seen[:6] != seen[6:]
    assert numbers(Loader(source).training(seed=3, size=4, first_step=2), 1) == seen[8:]
    assert numbers(Loader(source).training(seed=4, size=4), 3) != seen


def test_images_go_with_their_masks_in_order(folder):
    source, _ = sources.find_folder(folder)
    examples = list(Loader(source).testing())
    assert [example.number for example in examples] == list(range(6))
    for i, example in enumerate(examples):
        np.testing.assert_array_equal(example.image, np.asarray(Image.open(source.images[i])))
        np.testing.assert_array_equal(example.mask, source.mask(i))


def test_large_images_are_brought_down(folder):
    source, _ = sources.find_folder(folder)
    (small,) = next(Loader(source, short_side=30).training(0, 1))
    assert (small.image.shape, small.mask.shape) == ((30, 40, 3), (30, 40))
    assert np.isin(small.mask, source.mask(small.number)).all()
    tested = next(Loader(source, short_side=30).testing())
    assert (tested.image.shape, tested.mask.shape) == ((30, 40, 3), (60, 80))
    assert next(Loader(source, short_side=90).testing()).image.shape == (60, 80, 3)
    np.testing.assert_array_equal(resized(np.uint8([[0, 1], [2, 255]]), (4, 2)), [[0, 1], [0, 1], [2, 255], [2, 255]])


def test_groups_are_of_one_size(voc):
    train, test = sources.find_voc("2007", voc, train="all")
    examples = [*Loader(train).testing(), *Loader(test).testing(), *Loader(train).testing()]
    groups = [[example.image.shape[:2] for example in group] for group in of_one_size(examples, at_once=2)]
    assert groups == [[(50, 70)] * 2, [(70, 50)] * 2, [(50, 70)] * 2, [(64, 64)]]


def test_an_image_that_is_damaged_behind_its_header(folder, refusal):
    path = folder / "train" / "0.jpg"
    path.write_bytes(path.read_bytes()[:700])
    source, _ = sources.find_folder(folder)
    assert refusal(next, Loader(source).testing()) == f"{path}: is a JPEG file that is truncated or damaged"
