import socket
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from lci_tf.data import labelled, open_source, split_names
from lci_tf.data.sets import stl10, tfds_sets

tfds = pytest.importorskip("tensorflow_datasets")


def random_image(seed, height=4, width=6):
    return np.random.default_rng(seed).integers(0, 256, [height, width, 3], np.uint8)


def png(pixels):
    return tf.io.encode_png(pixels).numpy()


def store(place, name, features, splits, version="1.0.0", config=None):
    """Prepares a data set as tfds itself would, in the order given."""
    tfds.disable_progress_bar()
    tfds.dataset_builders.store_as_tfds_dataset(
        name=name,
        version=version,
        config=config,
        features=features,
        split_datasets={split: list(enumerate(examples)) for split, examples in splits.items()},
        data_dir=place,
        disable_shuffling=True,
    )


def store_official(place, name, splits, class_names=None):
    """One with the version and features that tfds declares for `name`; the classes of STL-10 are in its archive."""
    builder = tfds.builder(name, data_dir=place)
    if class_names:
        builder.info.features["label"].names = class_names
    config = builder.builder_config.name if builder.builder_config else None
    store(place, builder.name, builder.info.features, splits, str(builder.version), config)


@pytest.fixture
def no_network(monkeypatch):
    """Fails if anything asks the network: Python for an address, or TensorFlow's C++ the proxy that listens here."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        calls = []

        def listen():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    calls.append(connection.recv(200))

        threading.Thread(target=listen, daemon=True).start()
        for variable in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(variable, f"http://127.0.0.1:{server.getsockname()[1]}")
            monkeypatch.setenv(variable.upper(), f"http://127.0.0.1:{server.getsockname()[1]}")
        for variable in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(variable, raising=False)

        def look_up(host, *_, **__):
            calls.append(host)
            raise OSError(f"no network: {host}")

        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        yield
        assert calls == []


def test_stl10_is_read_and_unlabelled_is_the_split_to_pre_train_on(tmp_path, read_all):
    images = [random_image(seed, 96, 96) for seed in range(6)]
    store_official(
        tmp_path,
        "stl10",
        {
            "train": [{"image": images[0], "label": 0}, {"image": images[1], "label": 9}],
            "test": [{"image": images[2], "label": 3}],
            "unlabelled": [{"image": image, "label": -1} for image in images[3:]],
        },
        class_names=stl10.CLASSES,
    )
    assert split_names("stl10", [tmp_path]) == ["unlabelled", "train", "test"]
    source = open_source("stl10", None, [tmp_path])
    assert (source.name, source.split, source.count, source.label_kind) == ("stl10", "unlabelled", 3, "none")
    pixels, labels = read_all(source)
    np.testing.assert_array_equal(pixels, images[3:])
    assert labels is None

    source = open_source("stl10", "train", [tmp_path])
    assert (source.count, source.label_kind, source.label_names) == (2, "class", stl10.CLASSES)
    pixels, labels = read_all(source)
    np.testing.assert_array_equal(pixels, images[:2])
    assert labels == [0, 9]


def test_celeb_a_has_its_attributes_as_labels(tmp_path):
    features = tfds.builder("celeb_a", data_dir=tmp_path).info.features
    names = list(features["attributes"])
    attributes = np.random.default_rng(0).integers(0, 2, [3, len(names)]).astype(bool)
    images = [random_image(seed, 218, 178) for seed in range(3)]
    examples = [
        {
            "image": image,
            "landmarks": dict.fromkeys(features["landmarks"], 1),
            "identity": dict.fromkeys(features["identity"], 1),
            "attributes": dict(zip(names, row.tolist(), strict=True)),
        }
        for image, row in zip(images, attributes, strict=True)
    ]
    store_official(tmp_path, "celeb_a", {"validation": examples[:1], "train": examples})
    source = open_source("celeb_a", None, [tmp_path])
    assert (source.split, source.count, source.label_kind) == ("train", 3, "multi-label")
    assert list(source.label_names) == names and len(names) == 40
    rows = list(source.stream())
    assert rows[0]["label"].dtype == tf.int8
    assert [row["label"].numpy().tolist() for row in rows] == attributes.astype(int).tolist()
    assert split_names("celeb_a", [tmp_path]) == ["train", "validation"]


def test_voc_does_not_count_classes_with_only_difficult_objects(tmp_path, read_all):
    def example(seed, labels, labels_no_difficult):
        return {
            "image": random_image(seed),
            "image/filename": f"{seed}.jpg",
            "objects": [],
            "labels": labels,
            "labels_no_difficult": labels_no_difficult,
        }

    train = [example(0, ["cat", "dog"], ["cat"]), example(1, ["train"], ["train"]), example(2, ["cow"], [])]
    store_official(tmp_path, "voc/2007", {"train": train, "test": [example(3, [], [])]})
    source = open_source("voc/2007", None, [tmp_path])
    assert (source.name, source.split, source.count, source.label_kind) == ("voc/2007", "train", 3, "multi-label")
    assert source.label_names[0] == "aeroplane" and len(source.label_names) == 20
    _, labels = read_all(source)
    present = [{source.label_names[i]: value for i, value in enumerate(label) if value} for label in labels]
    assert present == [{"cat": 1, "dog": -1}, {"train": 1}, {"cow": -1}]
    assert read_all(open_source("voc/2007", "test", [tmp_path]))[1] == [[0] * 20]


def voc_example(seed):
    labels = ["cat"] if seed % 2 else ["dog"]
    return {"image": random_image(seed), "image/filename": f"{seed}.jpg", "objects": [], "labels": labels,
            "labels_no_difficult": labels}  # fmt: skip


def test_voc_is_trained_on_trainval_and_tested_on_test(tmp_path, read_all, refusal):
    parts = {"train": range(3), "validation": range(3, 5), "test": range(5, 6)}
    store_official(tmp_path, "voc/2007", {split: [voc_example(i) for i in seeds] for split, seeds in parts.items()})
    asked = ("voc/2007", [tmp_path], "--dataset", ("multi-label",))
    train, test = labelled.open_labelled(*asked)
    assert (train.split, train.count, test.split, test.count) == ("trainval", 5, "test", 1)
    np.testing.assert_array_equal(read_all(train)[0], [random_image(seed) for seed in range(5)])
    assert train.fingerprint != open_source("voc/2007", "train", [tmp_path]).fingerprint
    assert "trainval and validation share the images of validation" in refusal(
        labelled.open_labelled, *asked, "trainval", "validation"
    )
    train, test = labelled.open_labelled(*asked, None, "validation")
    assert (train.split, test.split) == ("train", "validation")


def test_voc_2012_is_not_tested_on_images_without_annotations(tmp_path):
    parts = {"train": range(3), "validation": range(3, 5), "test": range(5, 6)}
    examples = {split: [voc_example(i) for i in seeds] for split, seeds in parts.items()}
    examples["test"][0] |= {"labels": [], "labels_no_difficult": []}
    store_official(tmp_path, "voc/2012", examples)
    train, test = labelled.open_labelled("voc/2012", [tmp_path], "--dataset", ("multi-label",))
    assert (train.split, test.split) == ("train", "validation")
    assert open_source("voc/2012", "test", [tmp_path]).label_kind == "none"


def test_any_other_set_is_opened_by_its_name(tmp_path, read_all):
    features = {
        "id": tfds.features.Text(),
        "photo": tfds.features.Image(),
        "kind": tfds.features.ClassLabel(names=["a", "b"]),
    }
    images = [random_image(seed) for seed in range(3)]
    examples = [{"id": str(i), "photo": image, "kind": i % 2} for i, image in enumerate(images)]
    store(tmp_path, "my_photos", tfds.features.FeaturesDict(features), {"test": examples[:1], "train": examples})
    source = open_source("tfds:my_photos", None, [tmp_path])
    assert (source.name, source.split, source.count) == ("tfds:my_photos", "train", 3)
    assert (source.label_kind, source.label_names) == ("class", ("a", "b"))
    pixels, labels = read_all(source)
    np.testing.assert_array_equal(pixels, images)
    assert labels == [0, 1, 0]


def test_images_stay_encoded_as_they_were_stored(tmp_path):
    features = tfds.features.FeaturesDict({"image": tfds.features.Image()})
    (tmp_path / "a.png").write_bytes(png(random_image(0)))
    store(tmp_path, "encoded", features, {"train": [{"image": tmp_path / "a.png"}]})
    source = open_source("tfds:encoded", None, [tmp_path])
    assert source.is_encoded and source.label_kind == "none"
    assert [row["image"].numpy() for row in source.stream()] == [png(random_image(0))]


def test_attributes_that_are_no_truth_values_are_no_labels(tmp_path, read_all):
    features = tfds.features.FeaturesDict({"image": tfds.features.Image(), "attributes": tfds.features.Text()})
    store(tmp_path, "described", features, {"train": [{"image": random_image(0), "attributes": "red, round"}]})
    source = open_source("tfds:described", None, [tmp_path])
    assert source.label_kind == "none"
    assert read_all(source)[1] is None


def test_the_order_is_the_same_in_every_pass(tmp_path, read_all):
    features = tfds.features.FeaturesDict({"image": tfds.features.Image()})
    store(tmp_path, "ordered", features, {"train": [{"image": random_image(seed)} for seed in range(20)]})
    source = open_source("tfds:ordered", None, [tmp_path])
    np.testing.assert_array_equal(read_all(source)[0], read_all(source)[0])


def test_a_set_without_images_is_refused(tmp_path, refusal):
    store(tmp_path, "words", tfds.features.FeaturesDict({"text": tfds.features.Text()}), {"train": [{"text": "hello"}]})
    message = refusal(open_source, "tfds:words", None, [tmp_path])
    assert "--dataset=tfds:words: has no image among its features text" in message


@pytest.mark.parametrize(
    ("dataset", "archive"),
    [
        ("imagenet2012", "ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar"),
        ("places365_small", "train_256_places365standard.tar"),
        ("tfds:stl10", "stl10_binary.tar.gz"),
        ("tfds:celeb_a", "img_align_celeba.zip"),
        ("tfds:voc/2007", "VOCtrainval_06-Nov-2007.tar"),
        ("tfds:mnist", "its archive"),
    ],
)
def test_a_data_set_that_is_not_prepared_is_refused_with_advice(tmp_path, refusal, no_network, dataset, archive):
    start = time.monotonic()
    message = refusal(open_source, dataset, None, [tmp_path])
    assert time.monotonic() - start < 10
    assert f"not prepared in {tmp_path}; put {archive}" in message
    assert f"into {tmp_path}/downloads/manual" in message
    assert message.endswith(", or have network access, and leave out --nodownload")


@pytest.mark.parametrize("dataset", ["stl10", "celeb_a", "voc/2007", "voc/2012", "imagenet2012"])
def test_without_a_directory_the_default_one_is_looked_at(tmp_path, refusal, no_network, monkeypatch, dataset):
    monkeypatch.setenv("HOME", str(tmp_path))
    message = refusal(open_source, dataset)
    assert f"--dataset={dataset}: not prepared in {tmp_path}/tensorflow_datasets" in message


def test_a_set_prepared_in_the_default_directory_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    examples = [{"image": random_image(0, 96, 96), "label": 1}]
    store_official(tmp_path / "tensorflow_datasets", "stl10", {"train": examples})
    assert open_source("stl10").count == 1


def test_another_version_or_configuration_is_not_taken_for_the_set(tmp_path, refusal):
    features = tfds.features.FeaturesDict({"image": tfds.features.Image()})
    store(tmp_path, "voc", features, {"train": [{"image": random_image(0)}]}, "1.0.0", "2012")
    assert "not prepared" in refusal(tfds_sets.find, "voc/2007", tmp_path)


@pytest.mark.parametrize("name", ["no_such_thing", "voc/1066", "../elsewhere", "huggingface:no_such_thing"])
def test_an_unknown_name_is_refused(tmp_path, refusal, no_network, name):
    message = refusal(open_source, f"tfds:{name}", None, [tmp_path])
    assert f"tensorflow-datasets has no {name!r}" in message


def test_an_unknown_split_is_refused_with_those_there_are(tmp_path, refusal):
    features = tfds.features.FeaturesDict({"image": tfds.features.Image()})
    store(tmp_path, "small", features, {"b": [{"image": random_image(0)}], "a": [{"image": random_image(0)}]})
    message = refusal(open_source, "tfds:small", "train", [tmp_path])
    assert message == f"--split=train: tfds:small in {tmp_path} has a, b"
