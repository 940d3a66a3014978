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

import collections
import contextlib
import csv
import hashlib
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
import shutil
import tempfile
from typing import Any

import lci_tf
from lci_tf.errors import InputError

FLAGFILE = "run.flags"
_PATH_FLAGS = ("run_dir", "data_dir", "init_from", "inpainter")
_log = logging.getLogger("lci_tf")


class Run:
    """A run directory; `begin` makes it if need be."""

    def __init__(self, path: str | os.PathLike):
        self.path = pathlib.Path(_absolute(path))
        self.tensorboard, self.montages = self.path / "tensorboard", self.path / "montages"
        self.checkpoints, self.best = self.path / "checkpoints", self.path / "best"
        self._metrics_file = self.path / "metrics.jsonl"

    def begin(self, defining: dict[str, Any], is_chief: bool = True) -> bool:
        """Starts a new run, or takes up an old one.

        Args:
          defining: every flag value that decides the result, by the flag's name; None is a flag that was not set.
          is_chief: whether this process is the one that writes; the others only check.

        Returns:
          Whether the run was there before.

        Raises:
          InputError: the directory holds something else, a run with other flags, or one that is being trained.
        """
        given = {"run_dir": self.path, **{name: v for name, v in defining.items() if name != "run_dir"}}
        given = {name: _flag_text(name, value) for name, value in given.items() if value is not None}
        if re.search(r"[\[\\]", str(self.path)):
            raise InputError(f"--run_dir={self.path}: TensorFlow finds no checkpoints below a name with [ or \\ in it")
        # Listed before run.flags is looked for: the chief may be writing it just now, and writes it first.
        found = sorted(p.name for p in self.path.iterdir() if p.name[0] != ".") if self.path.is_dir() else []
        is_old = (self.path / FLAGFILE).is_file()
        if is_old:
            self._compare(self.flags(), given)
        elif found:
            raise InputError(
                f"--run_dir={self.path}: is not a run, for it has {found[0]} but no {FLAGFILE}; "
                "choose a new or an empty directory"
            )
        if is_chief:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock()
            if not is_old or self.flags() != given:  # an old one that was moved here
                command = f"python -m lci_tf.train --flagfile={shlex.quote(str(self.path / FLAGFILE))}"
                lines = [f"# {command}", *(f"--{name}={text}" for name, text in given.items())]
                _replace(self.path / FLAGFILE, "\n".join(lines) + "\n")
            for directory in (self.checkpoints, self.best, self.tensorboard, self.montages):
                directory.mkdir(exist_ok=True)
        return is_old

    def _compare(self, saved, given):
        def written(flags):
            return " ".join(f"--{n}={flags[n]}" if n in flags else f"(no --{n})" for n in differing)

        differing = [n for n in {**given, **saved} if n != "run_dir" and saved.get(n) != given.get(n)]
        if differing:
            raise InputError(
                f"--run_dir={self.path}: was started with {written(saved)}, not {written(given)}; "
                "choose another --run_dir, or the same settings"
            )

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

    def describe(self, facts: dict[str, Any]) -> None:
        """Writes `run.json`: the versions of what is installed, and these facts."""
        text = json.dumps({"versions": versions(), **facts}, indent=2, default=lambda array: array.tolist())
        _replace(self.path / "run.json", text + "\n")

    def facts(self) -> dict[str, Any]:
        """What `describe` wrote."""
        return json.loads((self.path / "run.json").read_text())

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
            _replace(self._metrics_file, "".join(line for line, r in self._records() if 0 < step >= r["step"]))

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


class Checkpoints:
    """The checkpoints of a run: the last few, and the best.

    Every worker calls these methods, at the same steps and with the same scores: where each has its own part of a
    variable, reading it takes all of them.

    Args:
      run: where they are kept.
      objects: what they hold: networks, optimisers and metrics by name. The same names load them again.
      keep: how many of the last.
      is_chief: whether this process's files count.
    """

    def __init__(self, run: Run, objects: dict[str, Any], keep: int = 3, is_chief: bool = True):
        import tensorflow as tf

        self._checkpoint = tf.train.Checkpoint(**objects)
        self._run, self._keep, self._is_chief = run, keep, is_chief
        self._best = _read_best(run.best)
        self._step = None  # of the last one saved or restored

    @property
    def latest(self) -> str | None:
        """The prefix of the last one saved or restored."""
        return None if self._step is None else _prefix(self._run.checkpoints, self._step)

    def restore_latest(self) -> int | None:
        """The step at which the run is to be resumed; None if it has no checkpoint yet.

        A damaged one is passed over for the one before it, with a warning. Objects whose variables are yet to be made
        get their values then.
        """
        steps = _steps_that_count(self._run.checkpoints)
        for step in reversed(steps):
            prefix = _prefix(self._run.checkpoints, step)
            damage = _damage_of(prefix)
            if not damage:
                _read(self._checkpoint, prefix, f"{prefix}: what it holds")
                self._step = step
                return step
            _log.warning("%s: is damaged (%s); taking the checkpoint before it", prefix, damage)
        if steps:
            raise InputError(f"{self._run.checkpoints}: every checkpoint is damaged; delete the folder to start anew")
        return None

    def save(self, step: int) -> None:
        """Saves, unless this very step was saved or restored last. Checkpoints of later steps do not count any more."""
        if step == self._step:
            return  # to overwrite it would leave nothing if killed meanwhile
        directory = self._run.checkpoints
        earlier = _steps_that_count(directory) if self._is_chief else []
        if earlier and self._step is None:
            raise RuntimeError("save before restore_latest would lose the checkpoints that are there")
        self._write(directory, step)
        self._step = step
        if self._is_chief:
            steps = [*(s for s in earlier if s < step), step][-self._keep :]
            lines = [f'all_model_checkpoint_paths: "step-{s}"' for s in steps]
            lines.insert(0, f'model_checkpoint_path: "step-{step}"')
            _replace(directory / "checkpoint", "\n".join(lines) + "\n")
            _sweep(directory, steps)

    def save_best(self, step: int, score: float) -> bool:
        """Saves to `best/` if the score is above every earlier one, also those before a resume; whether it was."""
        best = self._best
        if math.isnan(score) or (best and (step == best["step"] or not score > best["score"])):
            return False
        self._write(self._run.best, step)
        self._best = {"step": int(step), "score": float(score)}
        if self._is_chief:
            _replace(self._run.best / "best.json", json.dumps(self._best) + "\n")
            _sweep(self._run.best, [step])
        return True

    def _write(self, directory, step):
        import tensorflow as tf

        try:
            if self._is_chief:
                self._checkpoint.write(_prefix(directory, step))
            else:  # for the sake of the chief, who waits for this worker's part of the variables
                with tempfile.TemporaryDirectory() as elsewhere:
                    self._checkpoint.write(_prefix(pathlib.Path(elsewhere), step))
        except tf.errors.OpError as error:
            raise InputError(f"{directory}: the checkpoint cannot be written ({_first_line(error)})") from error


def find_checkpoint(path: str | os.PathLike, flag: str = "run", which: str = "latest") -> str:
    """The prefix of a checkpoint's files.

    Args:
      path: a run directory, or the prefix itself.
      flag: what the user calls the path, for messages.
      which: of a run, the `"latest"` or the `"best"`.
    """
    place, what = pathlib.Path(_absolute(path)), f"{flag}={path}"
    prefix = str(place).removesuffix(".index")
    if pathlib.Path(f"{prefix}.index").is_file():
        return prefix
    run = Run(place)
    if not (run.path / FLAGFILE).is_file():
        raise InputError(f"{what}: no such run or checkpoint")
    steps, best = _steps_that_count(run.checkpoints), _read_best(run.best)
    if which == "best" and best:
        return _prefix(run.best, best["step"])
    if not steps:
        raise InputError(f"{what}: has no checkpoint yet")
    if which == "best":
        raise InputError(f"{what}: has no best checkpoint, since no probe ran; take the latest")
    return _prefix(run.checkpoints, steps[-1])


def load_weights(path: str | os.PathLike, flag: str = "run", which: str = "latest", **objects: Any) -> str:
    """Restores networks from a run or a checkpoint, such as `load_weights(path, classifier=classifier)`.

    Args:
      path, flag, which: see `find_checkpoint`, whose prefix is returned.
      objects: networks with their variables made, under the names that the checkpoint has them by.
    """
    import tensorflow as tf

    prefix, what = find_checkpoint(path, flag, which), f"{flag}={path}"
    damage = _damage_of(prefix)
    if damage:
        raise InputError(f"{what}: {prefix} is damaged ({damage})")
    shapes = tf.train.load_checkpoint(prefix).get_variable_to_shape_map()
    for name, network in objects.items():
        if not network.variables:
            raise ValueError(f"{name} has no variables yet to load weights into")
        held = collections.Counter(tuple(shape) for key, shape in shapes.items() if key.startswith(f"{name}/"))
        if not held:
            raise InputError(f"{what}: holds no {name}")
        # TensorFlow would find out too, but halfway through, and with many lines.
        missing = collections.Counter(tuple(variable.shape) for variable in network.variables) - held
        if missing:
            expected = ", ".join(str(list(shape)) for shape in list(missing)[:3])
            raise InputError(f"{what}: its {name} is another network, without weights of shape {expected}")
        _read(tf.train.Checkpoint(**{name: network}), prefix, f"{what}: its {name}")
    return prefix


def digest(prefix: str) -> str:
    """Which weights these are: 16 hexadecimal digits of the SHA-256 of a checkpoint's data files."""
    path, total = pathlib.Path(prefix), hashlib.sha256()
    for data in sorted(p for p in path.parent.iterdir() if p.name.startswith(f"{path.name}.data-")):
        with data.open("rb") as file:
            while piece := file.read(1 << 20):
                total.update(piece)
    return total.hexdigest()[:16]


def _read(checkpoint, prefix, what):
    try:
        status = checkpoint.read(prefix).expect_partial()  # optimisers may be yet to make their variables
        status.assert_existing_objects_matched()
    except ValueError as error:
        raise InputError(f"{what} has other shapes ({_first_line(error)})") from error
    except AssertionError as error:
        raise InputError(f"{what} is of another architecture") from error


def _damage_of(prefix):
    """None if all of a checkpoint can be read and agrees with its checksums, else what is wrong."""
    import tensorflow as tf

    try:
        reader = tf.train.load_checkpoint(prefix)
        for key in reader.get_variable_to_shape_map():
            reader.get_tensor(key)
    except (tf.errors.OpError, IndexError) as error:
        return _first_line(error)
    return None


def _prefix(directory, step):
    return str(directory / f"step-{step}")


def _steps_that_count(directory):
    """From TensorFlow's own file, so that `tf.train.latest_checkpoint` finds the same."""
    path = directory / "checkpoint"
    return [int(s) for s in re.findall(r'all_\w+: "step-(\d+)"', path.read_text())] if path.is_file() else []


def _read_best(directory):
    path = directory / "best.json"
    return json.loads(path.read_text()) if path.is_file() else None  # {"step", "score"}


def _sweep(directory, steps):
    """Removes checkpoints of other steps, and what a write that was killed has left."""
    for path in list(directory.iterdir()):
        matched = re.match(r"step-(\d+)(\.index$|\.data-\d+-of-\d+$)?", path.name)
        if matched and not (matched[2] and int(matched[1]) in steps):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _replace(path, text):
    """Writes a file in one piece: whoever reads it finds the old text or the new."""
    beside = path.with_name(f".{path.name}.new")
    with beside.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def _flag_text(name, value):
    """As absl reads it from a flagfile: to the end of the line, without quotes, but lists as CSV."""
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, (list, tuple)):
        row = io.StringIO()
        csv.writer(row, lineterminator="").writerow([_absolute(v) if name in _PATH_FLAGS else v for v in value])
        text = row.getvalue()
    else:
        text = _absolute(value) if name in _PATH_FLAGS else str(value)
    try:
        is_read_as_written = text == f"={text}".strip()[1:] and not re.search(r"[\r\n]", text)
        text.encode(locale.getpreferredencoding(False))
    except UnicodeEncodeError:
        is_read_as_written = False
    if not is_read_as_written:
        raise InputError(f"--{name}={text!r}: cannot be written to {FLAGFILE}, where values are lines of text")
    return text


def _absolute(path):
    return os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111 (pathlib keeps "..")


def _first_line(error):
    return str(getattr(error, "message", error)).strip().splitlines()[0]
