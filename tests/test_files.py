"""A bucket is stood for by TensorFlow's file system in memory, which is reached as Google's is, by its URL."""

import pathlib

import tensorflow as tf

from lci_tf import data, files
from lci_tf.data.sets import folder


def test_paths():
    assert files.as_path("~/a") == pathlib.Path.home() / "a"
    assert files.absolute("a/../b") == str(pathlib.Path.cwd() / "b")
    assert files.absolute("gs://bucket/a") == "gs://bucket/a" == str(files.as_path("gs://bucket") / "a")


def test_unknown_storage_is_refused(refusal):
    assert refusal(files.as_path, "gopher://a/b").startswith(
        "gopher://a/b: TensorFlow does not support this kind of storage"
    )


def test_data_sets_that_are_not_read_from_buckets(bucket, refusal):
    message = refusal(data.open_source, "voc/2007", None, str(bucket))
    assert message == f"--dataset=voc/2007: cannot be read from a bucket, {bucket}; only folder and tfrecord can"


def test_a_file_is_replaced(tmp_path, bucket):
    (tmp_path / "a.txt").write_text("old")
    for place in (tmp_path, bucket):
        files.replace_file(place / "a.txt", "new")
        assert [path.name for path in place.iterdir()] == ["a.txt"]
        assert (place / "a.txt").read_text() == "new"


def test_images_in_a_bucket_are_listed_as_in_a_folder(tmp_path, bucket, write_png, read_all):
    names = ["train/cat/1.png", "train/dog/2.PNG", "train/dog/deep/3.png", "train/dog/.hidden/4.png", "val/cat/5.png"]
    for name in names:
        write_png(name)
        (bucket / name).parent.mkdir(parents=True, exist_ok=True)
        (bucket / name).write_bytes((tmp_path / name).read_bytes())
    (bucket / "train" / "notes.txt").write_text("no image")
    images, others, _ = folder.list_images(bucket / "train")
    assert images == [f"{bucket}/{name}" for name in names[:3]] and others == [f"{bucket}/train/notes.txt"]
    there, here = (data.open_source("folder", "train", str(place)) for place in (bucket, tmp_path))
    assert there.label_names == here.label_names == ("cat", "dog")
    (pixels_there, labels_there), (pixels_here, labels_here) = read_all(there), read_all(here)
    assert labels_there == labels_here
    assert all((a == b).all() for a, b in zip(pixels_there, pixels_here, strict=True))


def test_why_an_image_in_a_bucket_cannot_be_read(bucket):
    (bucket / "a.png").write_text("no image")
    source = data.open_source("folder", data_dirs=str(bucket))
    assert "not" in source.why_unreadable(source.paths[0].encode())
    tf.io.gfile.remove(source.paths[0])
    why = source.why_unreadable(source.paths[0].encode())
    assert why.startswith("cannot be read: ") and len(why) > 25 and "None" not in why, why
