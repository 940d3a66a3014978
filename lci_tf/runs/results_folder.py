"""The folder of results of a transfer command: what was asked, and what came of it.

protocol.json   what was asked: the same folder is for the same question only
results.json    what came of it, and the protocol; written last, so that whatever has it is finished
"""

import hashlib
import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

from lci_tf import files
from lci_tf.errors import InputError

Asked = dict[str, Any]
Results = dict[str, Any]


def digest(asked: Asked) -> str:
    """Eight hexadecimal digits that differ whenever the question does."""
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:8]


def begin(folder: pathlib.Path, asked: Asked, what: str) -> Results | None:
    """Makes the folder, or takes it up: then its results, if it has any.

    Args:
      asked: all that the results depend on, in plain values.
      what: is done, for messages.

    Raises:
      InputError: the folder is that of another question, or holds something else.
    """
    if re.search(r"[\[\\]", str(folder)):
        raise InputError(f"--out_dir={folder}: TensorFlow finds no checkpoints below a name with [ or \\ in it")
    asked = json.loads(json.dumps(asked))  # with lists for tuples, as it comes back from a file
    path = folder / "protocol.json"
    if path.is_file():
        before, now = dict(_flat(_read(path))), dict(_flat(asked))
        for name in sorted(before.keys() | now.keys()):
            if before.get(name) != now.get(name):
                raise InputError(
                    f"--out_dir={folder}: holds a {what} with another {name} ({before.get(name)}, and not "
                    f"{now.get(name)}); choose another folder"
                )
    elif folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"--out_dir={folder}: is not empty, and not the folder of a {what}; choose another")
    else:
        folder.mkdir(parents=True, exist_ok=True)
        files.replace_file(path, json.dumps(asked, indent=2) + "\n")
    return _read(folder / "results.json") if (folder / "results.json").is_file() else None


def keep(folder: pathlib.Path, results: Results) -> None:
    files.replace_file(folder / "results.json", json.dumps(results, indent=2) + "\n")


def _read(path):
    try:
        return json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: is not JSON ({error}); delete the folder to begin anew") from None


def _flat(value, name="") -> Iterator[tuple[str, Any]]:
    """("data.train.images", 5000) and the like."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else key)
    else:
        yield name, value
