"""Notes beside figures, in `figures.json`, what each of them depends on."""

import json
import pathlib

from lci_tf import files
from lci_tf.errors import InputError
from lci_tf.runs.provenance import Question

FILE = "figures.json"


def check(folder: pathlib.Path, figure: str, asked: Question) -> None:
    """Raises `InputError` if the folder has this figure, or parts of it, of other images."""
    parts = [before for name, before in _read(folder).items() if name == figure or name.startswith(f"{figure}_")]
    if any(before["data"] != asked["data"] for before in parts):
        raise InputError(f"--out_dir={folder}: has this figure of other images; choose another folder")


def keep(folder: pathlib.Path, figure: str, asked: Question) -> None:
    files.replace_file(folder / FILE, json.dumps({**_read(folder), figure: asked}, indent=2) + "\n")


def _read(folder):
    path = folder / FILE
    return json.loads(path.read_text()) if path.is_file() else {}
