"""check_data as a user runs it, on a folder with everything that can be wrong."""

import os
import pathlib
import shutil
import subprocess
import sys
import zlib

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

ROOT = pathlib.Path(__file__).parents[1]


def check_data(tmp_path, *arguments):
    command = [sys.executable, "-m", "lci_tf.check_data", f"--output_dir={tmp_path / 'out'}", *arguments]
    home = {**os.environ, "HOME": str(tmp_path)}  # without data sets that happen to be prepared on this machine
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=home)


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


def test_a_sound_folder_is_described_and_passes(folder, tmp_path):
    picture(1, (120, 100)).convert("L").save(folder / "train" / "cups" / "grey.png")
    result = check_data(tmp_path, "--dataset=folder", f"--data_dir={folder}", "--batch_size=16")
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
        "Nothing found that would spoil a training.",
    ):
        assert line in result.stdout.splitlines(), result.stdout
    montage = Image.open(tmp_path / "out" / "folder_train_montage.png")
    assert montage.size[0] > montage.size[1] > 200
    mean = np.asarray(Image.open(tmp_path / "out" / "folder_train_mean.png"))
    assert mean.shape == (64, 64, 3) and 100 < mean.mean() < 155


def test_what_is_wrong_is_named_and_fails(folder, tmp_path):
    train, val = folder / "train" / "cups", folder / "val" / "cups"
    (train / "3.jpg").write_bytes((train / "3.jpg").read_bytes()[:-300])
    picture(5).save(train / "new.webp")
    (train / "notes.txt").write_text("cups are on the left")
    shutil.copy(train / "4.jpg", train / "copy.jpg")
    shutil.copy(train / "5.jpg", val / "leak.jpg")
    exif = Image.Exif()
    exif[0x0112] = 6
    picture(6, (90, 110)).save(train / "phone.jpg", exif=exif)
    result = check_data(tmp_path, "--dataset=folder", f"--data_dir={folder}", "--batch_size=16")
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
        f"WRONG 1 images of val stand in train too, such as {val / 'leak.jpg'}",
    ):
        assert words in result.stdout, (words, result.stdout)


def test_splits_with_other_classes_are_wrong(folder, tmp_path):
    (folder / "val" / "keys").rename(folder / "val" / "locks")
    result = check_data(tmp_path, "--dataset=folder", f"--data_dir={folder}", "--batch_size=16")
    assert result.returncode == 1
    assert "WRONG val has other labels than train, such as keys" in result.stdout


def test_a_folder_of_refused_files_is_described(tmp_path):
    place = tmp_path / "images"
    place.mkdir()
    for i in range(50):
        picture(i).save(place / f"{i}.webp")
    result = check_data(tmp_path, "--dataset=folder", f"--data_dir={place}", "--batch_size=16")
    assert result.returncode == 1, result.stderr
    assert "WRONG all: 50 of 50 images cannot be read" in result.stdout


def test_the_official_voc_lists_overlap_rightly(tmp_path):
    place = tmp_path / "VOC2007"
    for sub in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (place / sub).mkdir(parents=True)
    for i in range(20):
        picture(i).save(place / "JPEGImages" / f"{i:06d}.jpg")
        (place / "Annotations" / f"{i:06d}.xml").write_text("<annotation></annotation>")
    for name, numbers in {"trainval": range(20), "train": range(10), "val": range(10, 20)}.items():
        (place / "ImageSets" / "Main" / f"{name}.txt").write_text("".join(f"{n:06d}\n" for n in numbers))
    result = check_data(tmp_path, "--dataset=voc/2007", f"--data_dir={tmp_path}", "--batch_size=4")
    assert result.returncode == 0, result.stdout + result.stderr


def test_mistakes_are_told_in_one_line(tmp_path):
    for arguments, words in (
        (["--dataset=folder"], "--dataset=folder needs --data_dir=DIR"),
        (["--dataset=folder", "--data_dir=nowhere"], "--data_dir=nowhere: no such folder"),
        (["--dataset=nothing"], "--dataset=nothing: unknown; expected one of synthetic, folder"),
        (["--dataset=synthetic", "--split=dev"], "--split=dev: synthetic has train, test"),
        (["--crop_size=100", "--resize=50"], "--resize=50: smaller than the crop of 100 pixels"),
        (["--batch_size=0"], "--batch_size=0: must be at least 1"),
        (["--max_bad_images=nan"], "flag --max_bad_images=nan"),
        ([f"--output_dir={__file__}"], f"{__file__}: File exists"),
        (["--dataset=stl10"], "--dataset=stl10: not prepared in "),
        (["--dataset=synthetic", "--download"], "--download: --dataset=synthetic is not a data set of tensorflow-data"),
    ):
        result = check_data(tmp_path, *arguments)
        assert result.returncode == 2 and result.stderr.count("\n") == 1, result.stderr
        assert words in result.stderr


def test_without_a_data_set_the_synthetic_one_is_checked(tmp_path):
    result = check_data(tmp_path, "--split=test")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "synthetic test: 1,000 images" in result.stdout and "10 classes" in result.stdout


def test_labels_without_a_name_are_told_in_one_line(tmp_path):
    contents = tf.io.encode_png(tf.zeros([40, 40, 3], tf.uint8)).numpy()
    features = {
        "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[contents])),
        "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[2])),
    }
    example = tf.train.Example(features=tf.train.Features(feature=features))
    with tf.io.TFRecordWriter(str(tmp_path / "train.tfrecord")) as writer:
        writer.write(example.SerializeToString())
    (tmp_path / "labels.txt").write_text("cat\ndog\n")
    result = check_data(tmp_path, "--dataset=tfrecord", f"--data_dir={tmp_path}")
    assert result.returncode == 2
    assert "tfrecord train: has a label 2, but names for 0…1; labels count from 0" in result.stderr
