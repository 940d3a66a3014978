"""CelebA, from images with the official attribute list or with a CSV of attributes, or from tensorflow-datasets."""

import csv
import pathlib

import numpy as np

from lci_tf.data.sets import tfds_sets
from lci_tf.data.source import ImageFiles, Splits
from lci_tf.errors import InputError

OFFICIAL_SPLITS = {"train": 0, "val": 1, "test": 2}  # their numbers in list_eval_partition.txt


def find(data_dir: pathlib.Path | None) -> Splits:
    if data_dir is None or tfds_sets.is_prepared("celeb_a", data_dir):
        return tfds_sets.find("celeb_a", data_dir)
    lists = [f for sub in ("", "Anno") if (f := data_dir / sub / "list_attr_celeba.txt").is_file()]
    if lists:
        return _find_official(data_dir, lists[0])
    tables = sorted(data_dir.glob("*attr*.csv"))
    if tables:
        return _find_csv(data_dir, tables[0])
    if tfds_sets.may_go_to(data_dir):
        return tfds_sets.find("celeb_a", data_dir)
    raise InputError(f"--data_dir={data_dir}: no attributes there; expected list_attr_celeba.txt or attributes.csv")


def _find_official(data_dir, attribute_list):
    """Reads list_attr_celeba.txt: a count, a line of attribute names, and for each file a line of -1 or 1 per name."""
    lines = attribute_list.read_text().splitlines()
    if len(lines) < 3:
        raise InputError(f"{attribute_list}: expected a count, a line of attribute names, and a line per image")
    names = tuple(lines[1].split())
    files, values = [], []
    for number, line in enumerate(lines[2:], start=3):
        if not line.strip():
            continue
        file, *row = line.split()
        if len(row) != len(names) or not set(row) <= {"1", "-1"}:
            raise InputError(f"{attribute_list}, line {number}: expected {len(names)} values of 1 or -1, got {line!r}")
        files.append(file)
        values.append(row)
    labels = (np.array(values, np.int8).reshape(-1, len(names)) == 1).astype(np.int8)
    folders = ("img_align_celeba", "Img/img_align_celeba", "images", ".")
    image_dir = next((d for f in folders if files and ((d := data_dir / f) / files[0]).is_file()), None)
    if image_dir is None:
        raise InputError(f"{data_dir}: no {files[0] if files else 'images'} in {' or '.join(folders)}")
    paths = np.array([str(image_dir / file) for file in files])

    partition = next((f for sub in ("", "Eval") if (f := data_dir / sub / "list_eval_partition.txt").is_file()), None)
    if partition is None:
        return {"all": lambda: _source("all", paths, labels, names)}
    part_of = _read_partition(partition)
    part = np.array([part_of.get(file, -1) for file in files])
    splits = {
        split: lambda split=split, of_split=part == number: _source(split, paths[of_split], labels[of_split], names)
        for split, number in OFFICIAL_SPLITS.items()
        if number in part
    }
    if not splits:
        raise InputError(f"{partition}: has none of the images in {attribute_list}")
    return splits


def _read_partition(path):
    """Reads list_eval_partition.txt: on each line, a file and the number of its split. Returns file -> number."""
    part_of = {}
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.strip():
            continue
        file, *part = line.split()
        if part not in (["0"], ["1"], ["2"]):
            raise InputError(f"{path}, line {number}: expected a file and 0, 1 or 2, got {line!r}")
        part_of[file] = int(part[0])
    return part_of


def _find_csv(data_dir, table):
    """Reads a CSV with columns `split`, `file`, optionally `identity`, and one of 0 or 1 for each attribute."""
    with table.open(newline="") as file:
        reader = csv.DictReader(file)
        rows, columns = list(reader), reader.fieldnames or ()
    names = tuple(name for name in columns if name not in ("split", "file", "identity"))
    if not names or not {"split", "file"} <= set(columns):
        raise InputError(f"{table}: expected columns split, file and one per attribute, got {', '.join(columns)}")
    if not rows:
        raise InputError(f"{table}: lists no image")
    for number, row in enumerate(rows, start=2):
        # The reader puts surplus values of a line under None.
        if None in row or not {row[name] for name in names} <= {"0", "1"}:
            raise InputError(f"{table}, line {number}: expected 0 or 1 for each of {len(names)} attributes")

    def opener(split):
        of_split = [row for row in rows if row["split"] == split]
        paths = np.array([str(data_dir / row["file"]) for row in of_split])
        labels = np.array([[row[name] for name in names] for row in of_split], np.int8)
        return lambda: _source(split, paths, labels, names)

    splits = dict.fromkeys(row["split"] for row in rows)
    return {split: opener(split) for split in sorted(splits, key=lambda split: split != "train")}


def _source(split, paths, labels, names):
    return ImageFiles(
        name="celeb_a",
        split=split,
        count=len(paths),
        label_kind="multi-label",
        label_names=names,
        paths=paths.tolist(),
        labels=labels,
    )
