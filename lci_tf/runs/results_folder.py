"""The folder in which an evaluation keeps its results, for one question only, see `provenance`.

protocol.json   the question; a folder is never used for another one
results.json    the results, with the question; written last, so its presence means that the evaluation is finished
"""

import json
import pathlib
import re
from collections.abc import Sequence
from typing import Any

from lci_tf import files
from lci_tf.errors import InputError
from lci_tf.runs import provenance
from lci_tf.runs.provenance import Question

Results = dict[str, Any]


def default(kind: str, names: Sequence[str], origin: dict[str, Any], asked: Question) -> pathlib.Path:
    """The default folder for a question: in the run of the network, or else in runs/.

    Args:
      kind: kind of results, such as `"probe"`.
      names: parts of the folder's name, to which the network and the digest of the question are added.
      origin: origin of the network, see `FeatureModel`.
      asked: the question.
    """
    network = "random" if "random" in origin else f"step-{origin['step']}" if "step" in origin else "model"
    home = origin.get("run") or f"runs/{'random' if 'random' in origin else pathlib.Path(origin['model']).stem}"
    return pathlib.Path(home, kind, "_".join([*names, network, provenance.digest(asked)]))


def begin(folder: pathlib.Path, asked: Question, what: str) -> Results | None:
    """Creates the folder, or resumes in it. Returns its results if it has any.

    Args:
      asked: everything that the results depend on; see `provenance`.
      what: name of the evaluation, for messages.

    Raises:
      InputError: the folder belongs to another question, or contains something else.
    """
    if re.search(r"[\[\\]", str(folder)):
        raise InputError(f"--out_dir={folder}: TensorFlow finds no checkpoints below a name with [ or \\ in it")
    path = folder / "protocol.json"
    if path.is_file():
        if unlike := provenance.difference(_read(path), asked):
            raise InputError(f"--out_dir={folder}: holds a {what} {unlike}; choose another folder")
    elif folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"--out_dir={folder}: is not empty, and not the folder of a {what}; choose another")
    else:
        folder.mkdir(parents=True, exist_ok=True)
        files.replace_file(path, json.dumps(asked, indent=2) + "\n")
    return _read(folder / "results.json") if (folder / "results.json").is_file() else None


def keep(folder: pathlib.Path, results: Results) -> None:
    """Writes `results.json`, which marks the evaluation as finished."""
    files.replace_file(folder / "results.json", json.dumps(results, indent=2) + "\n")


def _read(path):
    try:
        return json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: is not JSON ({error}); delete the folder to start over") from None
