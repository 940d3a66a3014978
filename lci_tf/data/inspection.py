"""Checks a data set before training: reads every file once, and decodes every image once as training would."""

import collections
import concurrent.futures
import dataclasses
import hashlib
import os
import random
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
from PIL import Image
from tqdm import tqdm

from lci_tf import files
from lci_tf.data import pipeline
from lci_tf.data.input_report import InputReport, allowed_bad_images
from lci_tf.data.mean_image import mean_image
from lci_tf.data.source import ImageFiles, Source
from lci_tf.errors import InputError
from lci_tf.imaging import decoding, images
from lci_tf.plotting import pictures

_SAMPLES = 40  # images in the montage
_EXIF_ORIENTATION = 0x0112


@dataclasses.dataclass
class Findings:
    """What the inspection of one split found.

    Attributes:
      count: number of images, including unreadable ones.
      label_counts: number of images of each class, or with each attribute.
      sizes: (width, height) of the upright image -> number of images; only those with a readable header.
      formats: format, such as `"JPEG"` or `"PNG, grey"` -> number of images.
      orientations: EXIF orientation other than upright -> number of images.
      unreadable: index of an image -> where it is and why it cannot be read.
      duplicates: for each content that occurs more than once, where its images are.
      digests: digest of a content -> where its first image is; for comparing splits.
      mean: float [crop, crop, 3], the mean of the centre crops, 0…255.
      samples: some images as they are stored, encoded or as pixels.
    """

    count: int = 0
    label_counts: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    sizes: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    formats: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    orientations: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    unreadable: dict[int, str] = dataclasses.field(default_factory=dict)
    duplicates: list[list[str]] = dataclasses.field(default_factory=list)
    digests: dict[bytes, str] = dataclasses.field(default_factory=dict)
    mean: np.ndarray | None = None
    samples: list[bytes | np.ndarray] = dataclasses.field(default_factory=list)


def inspect(source: Source, crops: pipeline.Crops, seed: int = 0) -> Findings:
    """Reads and decodes every image of the source. Shows two progress bars."""
    findings = Findings()
    report = InputReport(source, max_bad_images=float("inf"))
    with report.one_line_errors():
        _inspect_contents(source, findings, random.Random(seed))
    findings.mean = mean_image(source, crops, report)
    findings.unreadable = report.unreadable
    return findings


def problems(findings: Findings, crops: pipeline.Crops, max_bad_images: float) -> list[str]:
    """What in a split would spoil training, one sentence each."""
    found = []
    if len(findings.unreadable) > allowed_bad_images(max_bad_images, findings.count):
        found.append(f"{len(findings.unreadable):,} of {findings.count:,} images cannot be read, "
                     f"more than --max_bad_images={max_bad_images:g} allows")  # fmt: skip
    small = sum(n for size, n in findings.sizes.items() if min(size) < crops.crop_size)
    if small > findings.count / 2:
        found.append(f"{small:,} of {findings.count:,} images are smaller than the {crops.crop_size}-pixel crop")
    repeated = sum(len(places) - 1 for places in findings.duplicates)
    if repeated > findings.count / 10:
        found.append(f"{repeated:,} of {findings.count:,} images are duplicates of others")
    return found


def differing_labels(label_names: dict[str, tuple[str, ...]]) -> list[str]:
    """Complaints about splits with different labels, in which the same number would mean another class."""
    labelled = {split: names for split, names in label_names.items() if names}
    (first, expected), *others = labelled.items() or [(None, ())]
    return [
        f"{split} and {first} have different labels, such as {min(set(names) ^ set(expected), default='another order')}"
        for split, names in others
        if names != expected
    ]


def shared_images(findings: dict[str, Findings]) -> dict[tuple[str, str], list[str]]:
    """Images that are in two splits: (first split, second split) -> where they are in the second."""
    shared = {}
    splits = list(findings)
    for i, first in enumerate(splits):
        for second in splits[i + 1 :]:
            if first == "trainval" and second in ("train", "val"):
                continue  # in VOC, trainval is the union of these
            both = findings[first].digests.keys() & findings[second].digests.keys()
            if both:
                shared[first, second] = sorted(findings[second].digests[digest] for digest in both)
    return shared


def pictures_of(findings: Findings, crops: pipeline.Crops, seed: int = 0) -> dict[str, np.ndarray]:
    """`"montage"`: images as stored, next to random crops of the same images; `"mean"`: the mean image. uint8."""
    side, stored, cropped = max(96, crops.crop_size), [], []
    views = np.random.default_rng(seed).random([len(findings.samples), 1, 3]).astype(np.float32)
    for contents, view in zip(findings.samples, views, strict=True):
        try:
            image = images.pixels(tf.constant(contents))
        except tf.errors.InvalidArgumentError:
            continue
        crop = images.crop(image, tf.constant(view), crops.crop_size, crops.resize)[0].numpy()
        stored.append(pictures.fit(image.numpy(), side))
        cropped.append(pictures.fit(crop, side))
    if not stored or findings.mean is None:
        return {}
    columns = 5 if len(stored) <= 20 else 8
    montage = pictures.side_by_side({
        "as stored": pictures.grid(np.stack(stored), columns),
        f"as training sees them: {crops.crop_size}-pixel crops": pictures.grid(np.stack(cropped), columns),
    })  # fmt: skip
    return {"montage": montage, "mean": findings.mean.round().astype(np.uint8)}


def _inspect_contents(source, findings, rng):
    """Collects formats, sizes, orientations and duplicates from the stored bytes, and counts labels."""
    locations: dict[bytes, list[str]] = {}
    bar = tqdm(_contents(source), total=source.count, desc=f"reading {source.split}", unit=" images", leave=False)
    for index, (contents, label) in enumerate(bar):
        findings.count += 1
        if label is not None:
            _count_label(source, label, findings.label_counts)
        if contents is None:
            continue
        digest, size, kind, orientation = _facts(contents)
        locations.setdefault(digest, []).append(source.where(index))
        if size is not None:
            findings.sizes[size] += 1
            findings.formats[kind] += 1
        if orientation > 1:
            findings.orientations[orientation] += 1
        if len(findings.samples) < _SAMPLES:
            findings.samples.append(contents)
        elif (place := rng.randrange(index + 1)) < _SAMPLES:  # each image is equally likely to be a sample
            findings.samples[place] = contents
    findings.digests = {digest: places[0] for digest, places in locations.items()}
    findings.duplicates = [places for places in locations.values() if len(places) > 1]


def _contents(source: Source) -> Iterator[tuple[bytes | np.ndarray | None, np.ndarray | None]]:
    """(contents, label) of all images in order; contents are None where a file cannot be read."""
    if isinstance(source, ImageFiles):

        def read(path):
            try:
                return files.as_path(path).read_bytes()
            except (OSError, tf.errors.OpError):
                return None

        with concurrent.futures.ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as pool:
            # In portions, as `map` would read everything ahead of a slow consumer.
            for first in range(0, len(source.paths), 1000):
                paths = source.paths[first : first + 1000]
                labels = [None] * len(paths) if source.labels is None else source.labels[first : first + 1000]
                yield from zip(pool.map(read, paths), labels, strict=True)
    else:
        for row in source.stream().as_numpy_iterator():
            yield row["image"], row.get("label")


def _count_label(source, label, counts):
    if source.label_kind == "class":
        if label == -1:
            return  # tensorflow-datasets marks images with secret labels like this, such as ImageNet's test images
        if not 0 <= label < len(source.label_names):
            raise InputError(f"{source.name} {source.split}: has a label {label}, but names only for 0…"
                             f"{len(source.label_names) - 1}; labels count from 0")  # fmt: skip
        counts[source.label_names[label]] += 1
    else:
        counts.update(source.label_names[i] for i in np.flatnonzero(label == 1))


def _facts(contents):
    """(digest, upright size or None, kind, EXIF orientation)"""
    if isinstance(contents, np.ndarray):
        height, width, _ = contents.shape
        return hashlib.blake2b(contents.tobytes(), digest_size=16).digest(), (width, height), "pixels", 1
    digest = hashlib.blake2b(contents, digest_size=16).digest()
    try:
        with decoding.header_of(contents) as image:
            kind = "JPEG" if image.format == "MPO" else str(image.format)
            colours = {"RGB": "", "L": ", grey", "RGBA": ", RGBA", "P": ", palette", "CMYK": ", CMYK"}
            kind += colours.get(image.mode, f", {image.mode}")
            orientation = _orientation(image) if image.format in ("JPEG", "MPO") else 1
            size = image.size[::-1] if orientation >= 5 else image.size
            return digest, size, kind, orientation
    except Exception:  # Pillow raises all kinds of errors on broken headers; decoding will report the file
        return digest, None, None, 1


def _orientation(image):
    """EXIF orientation, from the EXIF segment only, as in decoding; Pillow's `getexif` would use other metadata too."""
    exif = Image.Exif()
    exif.load(image.info.get("exif", b""))
    return exif.get(_EXIF_ORIENTATION, 1)
