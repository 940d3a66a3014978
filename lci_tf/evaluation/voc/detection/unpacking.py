"""Writes VOC from tensorflow-datasets in VOC's own layout, as detection reads its images in any order."""

import pathlib
import xml.etree.ElementTree as tree

import numpy as np
from tqdm import tqdm

from lci_tf import files
from lci_tf.data.sets import voc
from lci_tf.data.sets.tfds_sets import TfdsSource
from lci_tf.data.source import ImageFiles
from lci_tf.imaging import decoding
from lci_tf.runs import provenance

_EDGES = ("ymin", "xmin", "ymax", "xmax")  # order in tensorflow-datasets


def unpack(source: TfdsSource, home: pathlib.Path) -> ImageFiles:
    """Writes the images and objects of a split of voc/2007 or voc/2012 below `home`, unless it is complete.

    The folder's name has a digest of the images, so that it is complete for these images and no others.
    """
    images = provenance.digest(provenance.of_images(source))
    place = home / f"{source.name.replace('/', '_')}_{images}"
    listed = place / "ImageSets" / "Main" / f"{source.split}.txt"
    if not listed.is_file():
        for folder in ("JPEGImages", "Annotations", "ImageSets/Main"):
            (place / folder).mkdir(parents=True, exist_ok=True)
        numbers = [_write(example, source, place) for example in _examples(source)]
        files.replace_file(listed, "".join(f"{number}\n" for number in numbers))
    return voc.open_folder(source.name, place, source.split)


def _examples(source):
    import tensorflow_datasets as tfds

    doing = f"unpacking {source.split}"
    return tqdm(tfds.as_numpy(source.examples()), doing, source.count, unit=" images", dynamic_ncols=True)


def _write(example, source, place) -> str:
    """Writes one image and its annotation. Returns its number."""
    number = pathlib.Path(example["image/filename"].decode()).stem
    contents = example[source.image_key]
    with decoding.header_of(contents) as image:
        width, height = image.size
    objects, names = example["objects"], source.builder.info.features["objects"].feature["label"].names
    root = tree.Element("annotation")
    size = tree.SubElement(root, "size")
    for name, value in (("width", width), ("height", height)):
        tree.SubElement(size, name).text = str(value)
    for box, label, difficult in zip(objects["bbox"], objects["label"], objects["is_difficult"], strict=True):
        found = tree.SubElement(root, "object")
        tree.SubElement(found, "name").text = names[label]
        tree.SubElement(found, "difficult").text = str(int(difficult))
        edges = tree.SubElement(found, "bndbox")
        # They are stored as float32 shares of the image, and have to be rounded to be whole pixels again.
        for name, share, length in zip(_EDGES, box, (height, width, height, width), strict=True):
            tree.SubElement(edges, name).text = f"{np.round(float(share) * length, 2):g}"
    (place / "JPEGImages" / f"{number}.jpg").write_bytes(contents)
    tree.ElementTree(root).write(place / "Annotations" / f"{number}.xml")
    return number
