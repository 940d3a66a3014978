"""The run directory of a pre-training: its flags, its state and its results.

    run.flags        a flagfile that starts or resumes the run
    run.json         versions, sizes and names
    metrics.jsonl    one JSON object per line, each with its step
    checkpoints/     the latest few, named by step; the file `checkpoint` lists the valid ones
    best/            the checkpoint with the best probe; best.json has its step and score
    tensorboard/, montages/

A process may be killed at any moment, even while it writes. So small files that are replaced atomically list what is
valid, and are written after it is complete; what they do not list is deleted with the next checkpoint.

Several workers share one directory that all of them can read; only the chief writes to it.
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
import weakref
from collections.abc import Callable
from typing import Any

import lci_tf
from lci_tf.config import presets
from lci_tf.config.settings import Settings, upgraded
from lci_tf.errors import InputError
from lci_tf.files import absolute, is_bucket, replace_file

FLAGFILE, FACTS = "run.flags", "run.json"
_PATH_FLAGS = ("run_dir", "data_dir", "init_from", "inpainter", "probe_data_dir")
_log = logging.getLogger("lci_tf")


class Run:
    """A run directory; `begin` creates it if necessary."""

    def __init__(self, path: str | os.PathLike):
        if is_bucket(path):
            raise InputError(f"--run_dir={path}: must be a local folder, not in a bucket")
        self.path = pathlib.Path(absolute(path))
        self.tensorboard, self.montages = self.path / "tensorboard", self.path / "montages"
        self.checkpoints, self.best = self.path / "checkpoints", self.path / "best"
        self._metrics_file = self.path / "metrics.jsonl"
        self.left_out = self.path / ".look"  # there if the run was ended before it had looked at the features

    def begin(self, defining: dict[str, Any], others: dict[str, Any] | None = None, is_chief: bool = True) -> bool:
        """Starts a new run, or resumes an old one.

        Args:
          defining: flags that affect the result: name -> value; None for flags that were not set.
          others: flags that do not, such as how often to log. They are recorded too, but may change.
          is_chief: whether this process writes; the others only check.

        Returns:
          Whether the run existed before.

        Raises:
          InputError: the directory contains something else, a run with other flags, or one that is being trained.
        """
        others = others or {}
        given = {"run_dir": self.path, **{name: v for name, v in defining.items() if name != "run_dir"}, **others}
        given = {name: _flag_text(name, value) for name, value in given.items() if value is not None}
        if re.search(r"[\[\\]", str(self.path)):
            raise InputError(f"--run_dir={self.path}: TensorFlow finds no checkpoints below a name with [ or \\ in it")
        if self.path.is_file():
            raise InputError(f"--run_dir={self.path}: is a file; a run is a folder")
        # Listed before checking for run.flags, which the chief may be writing right now, as its first file.
        found = sorted(p.name for p in self.path.iterdir() if p.name[0] != ".") if self.path.is_dir() else []
        has_flags = (self.path / FLAGFILE).is_file()
        # Facts are written when training begins. A command that failed before, say because of a flag, does not count.
        is_old = has_flags and (self.path / FACTS).is_file()
        if is_old:
            self._compare({**self._later_settings(given), **self.flags()}, given, free={"run_dir", *others})
        elif found and not has_flags:
            raise InputError(
                f"--run_dir={self.path}: is not a run, as it has {found[0]} but no {FLAGFILE}; "
                "choose a new or empty directory"
            )
        if is_chief:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock()
            if not is_old or self.flags() != given:  # the run is new, was moved, or has other flags for logging
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
            longer = {"steps", "epochs"}.intersection(differing)
            advice = f", or to continue from its weights, another --run_dir and --init_from={self.path}"
            raise InputError(
                f"--run_dir={self.path}: was started with {written(saved)}, not {written(given)}; "
                f"choose another --run_dir, or the same settings{advice if longer else ''}"
            )

    def _later_settings(self, names):
        """The values from the preset of those settings among `names` that were introduced after the run was made."""
        flags = self.flags()
        later = [f.name for f in dataclasses.fields(Settings) if f.name in names and f.name not in flags]
        return {name: _flag_text(name, getattr(self.settings(), name)) for name in later}

    def _lock(self):
        # Held as long as this object or the process exists, as two processes would corrupt each other's files.
        import fcntl

        locked = (self.path / ".lock").open("w")
        weakref.finalize(self, locked.close)
        try:
            fcntl.lockf(locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            raise InputError(f"--run_dir={self.path}: is being trained by another process") from None
        except OSError:
            _log.info("%s: this file system has no locks; make sure that no other process trains there", self.path)

    def flags(self) -> dict[str, str]:
        """The contents of `run.flags`: name -> value as text; flags of older versions are translated."""
        if not (self.path / FLAGFILE).is_file():
            raise InputError(f"{self.path}: no such run (there is no {FLAGFILE})")
        with (self.path / FLAGFILE).open() as file:
            pairs = [line.strip().removeprefix("--").partition("=") for line in file if line.startswith("--")]
        written: dict[str, Any] = {name: text for name, _, text in pairs}
        if "deep_inpainter" in written:
            written["deep_inpainter"] = written["deep_inpainter"] == "true"
        return {name: str(value) for name, value in upgraded(written).items()}

    def settings(self) -> Settings:
        """The settings that the run was started with.

        Settings that were introduced later have the value of the data set's preset.
        """
        flags = self.flags()
        if "dataset" not in flags:
            raise InputError(f"{self.path / FLAGFILE}: has no --dataset; it was written by another version of lci_tf")
        read: dict[Any, Callable] = {int: int, float: float, bool: lambda text: text == "true", str: str}
        as_list = lambda text: tuple(next(csv.reader([text])))  # noqa: E731
        fields = {field.name: field.type for field in dataclasses.fields(Settings) if field.name in flags}
        given = {name: read.get(kind, as_list)(flags[name]) for name, kind in fields.items()}
        return presets.resolve(flags["dataset"], given)

    def data(self) -> tuple[str, str | None, list[str]]:
        """The images that the run was started with: data set, split and folders, as for `data.open_source`."""
        flags = self.flags()
        return flags.get("dataset", "synthetic"), flags.get("split"), next(csv.reader([flags.get("data_dir", "")]))

    def describe(self, facts: dict[str, Any]) -> None:
        """Writes `run.json`: the versions of the installed packages, and these facts."""
        text = json.dumps({"versions": versions(), **facts}, indent=2, default=lambda array: array.tolist())
        replace_file(self.path / FACTS, text + "\n")

    def facts(self) -> dict[str, Any]:
        """The contents of `run.json`, see `describe`."""
        return json.loads((self.path / FACTS).read_text())

    def log(self, step: int, values: dict[str, float]) -> None:
        """Adds a line to `metrics.jsonl`. Values that are not finite, which JSON cannot represent, become null."""
        numbers = {name: v if isinstance(v, int) else float(v) for name, v in values.items()}
        record = {"step": int(step), **{name: v if math.isfinite(v) else None for name, v in numbers.items()}}
        with self._metrics_file.open("a") as file:
            file.write(json.dumps(record) + "\n")

    def metrics(self) -> list[dict[str, float]]:
        """The records of `metrics.jsonl` in order; null is read as NaN."""
        return [{name: math.nan if v is None else v for name, v in record.items()} for _, record in self._records()]

    def forget_after(self, step: int) -> None:
        """Removes records of later steps, and an incomplete last line, as the resumed run will log them again.

        Args:
          step: the step at which the run is resumed; 0 starts over, and removes everything.
        """
        if self._metrics_file.exists():
            kept = [line for line, record in self._records() if step > 0 and record["step"] <= step]
            replace_file(self._metrics_file, "".join(kept))

    def _records(self):
        """Pairs of a line and its record."""
        lines = self._metrics_file.read_text().splitlines(keepends=True) if self._metrics_file.exists() else []
        try:
            return [(line, json.loads(line)) for line in lines if line.endswith("\n")]
        except json.JSONDecodeError as error:
            raise InputError(f"{self._metrics_file}: has a line that is not JSON ({error})") from None


def versions() -> dict[str, str]:
    """Versions of Python, this package, and the installed packages that results may depend on."""
    found = {"python": platform.python_version(), "lci_tf": lci_tf.__version__}
    for name in ("tensorflow", "keras", "tf-keras", "numpy", "tensorflow-addons", "keras-cv"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _flag_text(name, value):
    """The text of a value in a flagfile, as absl reads it: to the end of the line, without quotes, lists as CSV."""
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
