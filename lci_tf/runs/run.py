"""The run directory of a pre-training: what was asked for, where it stands, and what came of it.

    run.flags        starts the same run again
    run.json         versions, sizes and names
    metrics.jsonl    one JSON object a line, each with its step
    checkpoints/     the last few, named by step; the file `checkpoint` says which of the files count
    best/            the one that a probe liked best; best.json says which, and how much
    tensorboard/, montages/

A process may be killed at any moment, also while it writes. So what counts is named in small files that are replaced in
one piece, after what they name is complete; whatever they do not name is swept away with the next checkpoint.

With several workers the directory is one that all of them see. The chief alone writes to it.
"""

import contextlib
import csv
import dataclasses
import importlib.metadata
import io
import json
import locale
import logging
import math
import os
import pathlib
import platform
import re
import shlex
from typing import Any

import lci_tf
from lci_tf.config import presets
from lci_tf.config.presets import Settings
from lci_tf.errors import InputError
from lci_tf.files import absolute, is_bucket, replace_file

FLAGFILE, FACTS = "run.flags", "run.json"
_PATH_FLAGS = ("run_dir", "data_dir", "init_from", "inpainter", "probe_data_dir")
_log = logging.getLogger("lci_tf")


class Run:
    """A run directory; `begin` makes it if need be."""

    def __init__(self, path: str | os.PathLike):
        if is_bucket(path):
            raise InputError(f"--run_dir={path}: a run is kept in a folder, and not in a bucket")
        self.path = pathlib.Path(absolute(path))
        self.tensorboard, self.montages = self.path / "tensorboard", self.path / "montages"
        self.checkpoints, self.best = self.path / "checkpoints", self.path / "best"
        self._metrics_file = self.path / "metrics.jsonl"

    def begin(self, defining: dict[str, Any], others: dict[str, Any] | None = None, is_chief: bool = True) -> bool:
        """Starts a new run, or takes up an old one.

        Args:
          defining: every flag value that decides the result, by the flag's name; None is a flag that was not set.
          others: flags that do not, such as how often to log. Noted too, but free to change.
          is_chief: whether this process is the one that writes; the others only check.

        Returns:
          Whether the run was there before.

        Raises:
          InputError: the directory holds something else, a run with other flags, or one that is being trained.
        """
        others = others or {}
        given = {"run_dir": self.path, **{name: v for name, v in defining.items() if name != "run_dir"}, **others}
        given = {name: _flag_text(name, value) for name, value in given.items() if value is not None}
        if re.search(r"[\[\\]", str(self.path)):
            raise InputError(f"--run_dir={self.path}: TensorFlow finds no checkpoints below a name with [ or \\ in it")
        # Listed before run.flags is looked for: the chief may be writing it just now, and writes it first.
        found = sorted(p.name for p in self.path.iterdir() if p.name[0] != ".") if self.path.is_dir() else []
        has_flags = (self.path / FLAGFILE).is_file()
        # Facts are written when a training begins. A command that failed before, by a misspelt flag say, binds nobody.
        is_old = has_flags and (self.path / FACTS).is_file()
        if is_old:
            self._compare({**self._later_settings(given), **self.flags()}, given, free={"run_dir", *others})
        elif found and not has_flags:
            raise InputError(
                f"--run_dir={self.path}: is not a run, for it has {found[0]} but no {FLAGFILE}; "
                "choose a new or an empty directory"
            )
        if is_chief:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock()
            if not is_old or self.flags() != given:  # an old one that was moved here, or is logged otherwise
                command = f"python -m lci_tf.train --flagfile={shlex.quote(str(self.path / FLAGFILE))}"
                lines = [f"# {command}", *(f"--{name}={text}" for name, text in given.items())]
                replace_file(self.path / FLAGFILE, "\n".join(lines) + "\n")
            for directory in (self.checkpoints, self.best, self.tensorboard, self.montages):
                directory.mkdir(exist_ok=True)
        return is_old

    def _compare(self, saved, given, free):
        def written(flags):
            return " ".join(f"--{n}={flags[n]}" if n in flags else f"(no --{n})" for n in differing)

        differing = [n for n in {**given, **saved} if n not in free and saved.get(n) != given.get(n)]
        if differing:
            raise InputError(
                f"--run_dir={self.path}: was started with {written(saved)}, not {written(given)}; "
                "choose another --run_dir, or the same settings"
            )

    def _later_settings(self, names):
        """Those of `names` that are settings which came after the run, as its preset has them."""
        flags = self.flags()
        later = [f.name for f in dataclasses.fields(Settings) if f.name in names and f.name not in flags]
        return {name: _flag_text(name, getattr(self.settings(), name)) for name in later}

    def _lock(self):
        # Kept until this process ends, however it ends: a second one would tear the files of the first.
        import fcntl

        self._locked = (self.path / ".lock").open("w")
        try:
            fcntl.lockf(self._locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            raise InputError(f"--run_dir={self.path}: is being trained by another process") from None
        except OSError:
            _log.info("%s: no locks on this file system; see that no second process trains there", self.path)

    def flags(self) -> dict[str, str]:
        """What `run.flags` says: flag values as text, by name."""
        if not (self.path / FLAGFILE).is_file():
            raise InputError(f"{self.path}: no such run (there is no {FLAGFILE})")
        with (self.path / FLAGFILE).open() as file:
            pairs = [line.strip().removeprefix("--").partition("=") for line in file if line.startswith("--")]
        return {name: text for name, _, text in pairs}

    def settings(self) -> Settings:
        """What the run was started with, as far as that is in `Settings`.

        A setting that came after the run has its value of the data set's preset.
        """
        flags = self.flags()
        if "dataset" not in flags:
            raise InputError(f"{self.path / FLAGFILE}: has no --dataset; it is of another version of lci_tf")
        read = {int: int, float: float, bool: lambda text: text == "true", str: str}
        as_list = lambda text: tuple(next(csv.reader([text])))  # noqa: E731
        fields = {field.name: field.type for field in dataclasses.fields(Settings) if field.name in flags}
        given = {name: read.get(kind, as_list)(flags[name]) for name, kind in fields.items()}
        return presets.resolve(flags["dataset"], given)

    def data(self) -> tuple[str, str | None, list[str]]:
        """The images that it was started with: data set, split and folders, as `data.open_source` takes them."""
        flags = self.flags()
        return flags.get("dataset", "synthetic"), flags.get("split"), next(csv.reader([flags.get("data_dir", "")]))

    def describe(self, facts: dict[str, Any]) -> None:
        """Writes `run.json`: the versions of what is installed, and these facts."""
        text = json.dumps({"versions": versions(), **facts}, indent=2, default=lambda array: array.tolist())
        replace_file(self.path / FACTS, text + "\n")

    def facts(self) -> dict[str, Any]:
        """What `describe` wrote."""
        return json.loads((self.path / FACTS).read_text())

    def log(self, step: int, values: dict[str, float]) -> None:
        """Adds a line to `metrics.jsonl`. JSON has no word for what is not finite: that becomes null."""
        numbers = {name: v if isinstance(v, int) else float(v) for name, v in values.items()}
        record = {"step": int(step), **{name: v if math.isfinite(v) else None for name, v in numbers.items()}}
        with self._metrics_file.open("a") as file:
            file.write(json.dumps(record) + "\n")

    def metrics(self) -> list[dict[str, float]]:
        """What was logged, in order; null is read as nan."""
        return [{name: math.nan if v is None else v for name, v in record.items()} for _, record in self._records()]

    def forget_after(self, step: int) -> None:
        """Drops what was logged at later steps, and half a line at the end: a resumed run will log them again.

        Args:
          step: where the run is resumed. A run resumed at 0 starts anew, and all is dropped.
        """
        if self._metrics_file.exists():
            kept = [line for line, record in self._records() if step > 0 and record["step"] <= step]
            replace_file(self._metrics_file, "".join(kept))

    def _records(self):
        """Pairs of a line and what it says."""
        lines = self._metrics_file.read_text().splitlines(keepends=True) if self._metrics_file.exists() else []
        try:
            return [(line, json.loads(line)) for line in lines if line.endswith("\n")]
        except json.JSONDecodeError as error:
            raise InputError(f"{self._metrics_file}: has a line that is not JSON ({error})") from None


def versions() -> dict[str, str]:
    """Of Python, this package, and of what results may depend on, if installed."""
    found = {"python": platform.python_version(), "lci_tf": lci_tf.__version__}
    for name in ("tensorflow", "keras", "tf-keras", "numpy", "tensorflow-addons", "keras-cv"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _flag_text(name, value):
    """As absl reads it from a flagfile: to the end of the line, without quotes, but lists as CSV."""
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, (list, tuple)):
        row = io.StringIO()
        csv.writer(row, lineterminator="").writerow([absolute(v) if name in _PATH_FLAGS else v for v in value])
        text = row.getvalue()
    else:
        text = absolute(value) if name in _PATH_FLAGS else str(value)
    try:
        is_read_as_written = text == f"={text}".strip()[1:] and not re.search(r"[\r\n]", text)
        text.encode(locale.getpreferredencoding(False))
    except UnicodeEncodeError:
        is_read_as_written = False
    if not is_read_as_written:
        raise InputError(f"--{name}={text!r}: cannot be written to {FLAGFILE}, where values are lines of text")
    return text
