"""Whether a run names programs from elsewhere, which any command that loads the run would execute."""

import os
import pathlib

from lci_tf.config.names import TFDS
from lci_tf.errors import InputError
from lci_tf.files import absolute
from lci_tf.runs import FLAGFILE, Run


def require_known(path: str | os.PathLike, flag: str) -> None:
    """Raises `InputError` if a run, or that of a checkpoint, names a class or a data set from elsewhere.

    Args:
      path: path of the run or checkpoint; a missing one is not reported here.
      flag: the flag that gives the path, for messages.
    """
    place = pathlib.Path(absolute(path))
    for folder in (place, *place.parents[1:2]):
        if (folder / FLAGFILE).is_file():
            if named := foreign(Run(folder).flags()):
                raise InputError(f"{flag}={path}: names {named}, a program that is not part of lci_tf; give "
                                 "--trust_run if you trust whoever made the run")  # fmt: skip
            return


def foreign(flags: dict[str, str]) -> str | None:
    """The first program from elsewhere in a run's flags: a transformation MODULE:CLASS, or a community data set."""
    named = [name for name in flags.get("transforms", "").split(",") if ":" in name]
    for name in ("dataset", "probe_dataset"):
        value = flags.get(name, "")
        if ":" in value.removeprefix(TFDS):  # tensorflow-datasets fetches these with their code
            named.append(value)
    return next(iter(named), None)
