"""Images with any number of labels each, from a table: labels.csv, or the only CSV file in the folder.

    file,labels                      file,split,cat,dog
    photos/1.jpg,cat;dog             photos/1.jpg,train,1,1
    photos/2.jpg,                    photos/2.jpg,test,0,

The table on the left lists the labels of each image, separated by semicolons. The one on the right has a column per
label, with 1, 0, or nothing for unknown, which does not count. Paths are relative to the table's folder. The column
`split` is optional in both.
"""

import csv
import pathlib

import numpy as np

from lci_tf import files
from lci_tf.data.source import ImageFiles, Splits
from lci_tf.errors import InputError

NAME = "labels.csv"
_VALUES = {"1": 1, "0": 0, "": -1}


def find(data_dir: pathlib.Path | None) -> Splits:
    """The splits in the table's column `split`; without one, `all`."""
    if data_dir is None:
        raise InputError(f"--dataset=csv needs --data_dir=DIR, the folder with {NAME}")
    if not data_dir.is_dir():
        raise InputError(f"--data_dir={data_dir}: {files.why_no_folder(data_dir)}")
    tables = [data_dir / NAME] if (data_dir / NAME).is_file() else sorted(data_dir.glob("*.csv"))
    if len(tables) != 1:
        raise InputError(f"--data_dir={data_dir}: has {len(tables)} CSV files; expected one, or one named {NAME}")
    return _splits(tables[0])


def _splits(table):
    with table.open(newline="", encoding="utf-8-sig") as file:  # as spreadsheets write it
        reader = csv.DictReader(file)
        columns, rows = list(reader.fieldnames or ()), list(reader)
    if "file" not in columns:
        raise InputError(f"{table}: expected a column file, and labels or a column per class, got {', '.join(columns)}")
    if not rows:
        raise InputError(f"{table}: lists no image")
    for number, row in enumerate(rows, start=2):
        if None in row or None in row.values():  # the reader marks surplus and missing values like this
            raise InputError(f"{table}, line {number}: expected {len(columns)} values, as in the first line")
        if not (table.parent / row["file"]).is_file():
            raise InputError(f"{table}, line {number}: there is no image {table.parent / row['file']}")
    names, labels = _named(table, rows) if "labels" in columns else _by_column(table, columns, rows)
    paths = np.array([str(table.parent / row["file"]) for row in rows])
    of_split = np.array([row.get("split") or "all" for row in rows])

    def open_split(split):
        chosen = of_split == split
        return ImageFiles(
            name="csv",
            split=split,
            count=int(chosen.sum()),
            label_kind="multi-label",
            label_names=names,
            paths=paths[chosen].tolist(),
            labels=labels[chosen],
        )

    in_order = sorted(dict.fromkeys(of_split.tolist()), key=lambda split: split != "train")
    return {split: lambda split=split: open_split(split) for split in in_order}


def _named(table, rows):
    """Reads the column `labels`: names of all labels, and int8 [images, names]."""
    each = [[name.strip() for name in row["labels"].split(";") if name.strip()] for row in rows]
    names = tuple(sorted({name for present in each for name in present}))
    if not names:
        raise InputError(f"{table}: its column labels is empty; expected names separated by semicolons")
    return names, np.array([[name in present for name in names] for present in each], np.int8)


def _by_column(table, columns, rows):
    """Reads a table with a column per label: names of all labels, and int8 [images, names]."""
    names = tuple(name for name in columns if name not in ("file", "split"))
    if not names:
        raise InputError(f"{table}: has no labels; expected a column labels, or a column for each class")
    for number, row in enumerate(rows, start=2):
        for name in names:
            if row[name].strip() not in _VALUES:
                raise InputError(f"{table}, line {number}: expected 1, 0 or nothing for {name}, got {row[name]!r}")
    return names, np.array([[_VALUES[row[name].strip()] for name in names] for row in rows], np.int8)
