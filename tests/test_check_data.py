"""check_data as a user runs it, on a folder with everything that can be wrong."""

import shutil
import zlib
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image


class Result(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def check_data(run_command, tmp_path):
    def check(*arguments):
        (answer,) = run_command("check_data", [f"--out_dir={tmp_path / 'out'}", *arguments])
        return Result(*answer)

    return check


def picture(seed, size=(96, 96)):
    pixels = np.random.default_rng(seed).integers(0, 256, [6, 6, 3], np.uint8)
    return Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC)


@pytest.fixture
def folder(tmp_path):
    """Two splits of two classes, 40 and 40 images."""
    for split in ("train", "val"):
        for kind in ("cups", "keys"):
            place = tmp_path / "images" / split / kind
            place.mkdir(parents=True)
            for i in range(20):
                picture(zlib.crc32(f"{split}{kind}{i}".encode())).save(place / f"{i}.jpg")
    return tmp_path / "images"


def test_a_sound_folder_is_described_and_passes(folder, tmp_path, check_data):
    picture(1, (120, 100)).convert("L").save(folder / "train" / "cups" / "grey.png")
    result = check_data("--dataset=folder", f"--data_dir={folder}", "--batch_size=16")
    assert result.returncode == 0, result.stdout + result.stderr
    for line in (
        "folder train: 41 images",
        "  labels        2 classes: cups 21, keys 20",
        "  sizes         96×96 (40), 120×100 (1); 96×96 to 120×100",
        "  formats       JPEG (40), PNG, grey (1)",
        "  orientation   all as stored",
        "  unreadable    none",
        "  duplicates    none",
        "folder val: 40 images",
        "Found nothing that would spoil training.",
    ):
        assert line in result.stdout.splitlines(), result.stdout
    with Image.open(tmp_path / "out" / "folder_train_montage.png") as montage:
        assert montage.size[0] > montage.size[1] > 200
    mean = np.asarray(Image.open(tmp_path / "out" / "folder_train_mean.png"))
    assert mean.shape == (64, 64, 3) and 100 < mean.mean() < 155


def test_what_is_wrong_is_named_and_fails(folder, tmp_path, check_data):
    train, val = folder / "train" / "cups", folder / "val" / "cups"
    (train / "3.jpg").write_bytes((train / "3.jpg").read_bytes()[:-300])
    picture(5).save(train / "new.webp")
    (train / "notes.txt").write_text("cups are on the left")
    shutil.copy(train / "4.jpg", train / "copy.jpg")
    shutil.copy(train / "5.jpg", val / "leak.jpg")
    exif = Image.Exif()
    exif[0x0112] = 6
    picture(6, (90, 110)).save(train / "phone.jpg", exif=exif)
    result = check_data("--dataset=folder", f"--data_dir={folder}", "--batch_size=16")
    assert result.returncode == 1
    for words in (
        "3.jpg is a JPEG file that is truncated or damaged",
        "new.webp is a WebP file, which is not read; convert it to JPEG or PNG",
        "1 files in",
        "notes.txt",
        f"{train / '4.jpg'} = {train / 'copy.jpg'}",
        "EXIF orientation 6 (1); turned upright",
        "110×90 (1)",
        "WRONG train: 2 of 43 images cannot be read, more than --max_bad_images=0.01 allows",
        f"WRONG 1 images of val are also in train, such as {val / 'leak.jpg'}",
    ):
        assert words in result.stdout, (words, result.stdout)


def test_splits_with_other_classes_are_wrong(folder, tmp_path, check_data):
    (folder / "val" / "keys").rename(folder / "val" / "locks")
    result = check_data("--dataset=folder", f"--data_dir={folder}", "--batch_size=16")
    assert result.returncode == 1
    assert "WRONG val and train have different labels, such as keys" in result.stdout


def test_a_folder_of_refused_files_is_described(tmp_path, check_data):
    place = tmp_path / "images"
    place.mkdir()
    for i in range(50):
        picture(i).save(place / f"{i}.webp")
    result = check_data("--dataset=folder", f"--data_dir={place}", "--batch_size=16")
    assert result.returncode == 1, result.stderr
    assert "WRONG all: 50 of 50 images cannot be read" in result.stdout


def test_the_official_voc_lists_may_overlap(tmp_path, check_data):
    place = tmp_path / "VOC2007"
    for sub in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (place / sub).mkdir(parents=True)
    for i in range(20):
        picture(i).save(place / "JPEGImages" / f"{i:06d}.jpg")
        (place / "Annotations" / f"{i:06d}.xml").write_text("<annotation></annotation>")
    for name, numbers in {"trainval": range(20), "train": range(10), "val": range(10, 20)}.items():
        (place / "ImageSets" / "Main" / f"{name}.txt").write_text("".join(f"{n:06d}\n" for n in numbers))
    result = check_data("--dataset=voc/2007", f"--data_dir={tmp_path}", "--batch_size=4")
    assert result.returncode == 0, result.stdout + result.stderr


def test_mistakes_are_reported_in_one_line(tmp_path, check_data):
    mistakes = (
        (["--dataset=folder"], "--dataset=folder needs --data_dir=DIR"),
        (["--dataset=folder", "--data_dir=nowhere"], "--data_dir=nowhere: no such folder"),
        (["--dataset=folder", f"--data_dir={__file__}"], f"--data_dir={__file__}: is a file; expected a folder"),
        ([f"--data_dir={tmp_path}"], "--data_dir: the synthetic data set is drawn by the program and has no directory; "
                                     "did you mean --dataset=folder?"),
        (["--dataset=nothing"], "--dataset=nothing: unknown; expected one of synthetic, folder"),
        (["--dataset=synthetic", "--split=dev"], "--split=dev: synthetic has train, test"),
        (["--crop_size=100", "--resize=50"], "--resize=50: smaller than the crop of 100 pixels"),
        (["--batch_size=0"], "--batch_size=0: must be at least 1"),
        (["--max_bad_images=nan"], "flag --max_bad_images=nan"),
        ([f"--out_dir={__file__}"], f"--out_dir={__file__}: is a file; expected a folder"),
        (["--dataset=stl10", "--nodownload"], "--dataset=stl10: not prepared in "),
    )  # fmt: skip
    for arguments, words in mistakes:
        code, _, errors = check_data(*arguments)
        assert code == 2 and errors.count("\n") == 1, errors
        assert words in errors


def test_without_a_data_set_the_synthetic_one_is_checked(tmp_path, check_data):
    result = check_data("--split=test")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "synthetic test: 1,000 images" in result.stdout and "10 classes" in result.stdout


def test_labels_without_a_name_are_reported_in_one_line(tmp_path, check_data):
    contents = tf.io.encode_png(tf.zeros([40, 40, 3], tf.uint8)).numpy()
    features = {
        "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[contents])),
        "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[2])),
    }
    example = tf.train.Example(features=tf.train.Features(feature=features))
    with tf.io.TFRecordWriter(str(tmp_path / "train.tfrecord")) as writer:
        writer.write(example.SerializeToString())
    (tmp_path / "labels.txt").write_text("cat\ndog\n")
    result = check_data("--dataset=tfrecord", f"--data_dir={tmp_path}")
    assert result.returncode == 2
    assert "tfrecord train: has a label 2, but names only for 0…1; labels count from 0" in result.stderr
