"""Checkpoints of a run, the latest few and the best, written atomically; and loading networks from them."""

import collections
import hashlib
import json
import logging
import math
import os
import pathlib
import re
import shutil
import tempfile
from typing import Any

from lci_tf.errors import InputError
from lci_tf.files import absolute, replace_file
from lci_tf.runs import FLAGFILE, Run

_log = logging.getLogger("lci_tf")


class Checkpoints:
    """The checkpoints of a run: the latest few, and the best.

    All workers must call these methods, at the same steps and with the same scores, as reading variables that are
    distributed over workers involves all of them.

    Args:
      run: the run that keeps the checkpoints.
      objects: what to save: networks, optimisers and metrics by name. The same names restore them.
      keep: number of recent checkpoints to keep.
      is_chief: whether this process's files are the ones to keep.
      scored_by: identifies what gives the scores; the best of other scores does not count.
    """

    def __init__(
        self, run: Run, objects: dict[str, Any], keep: int = 3, is_chief: bool = True, scored_by: str | None = None
    ):
        import tensorflow as tf

        self._checkpoint = tf.train.Checkpoint(**objects)
        self._run, self._keep, self._is_chief = run, keep, is_chief
        self._scored_by = {"by": scored_by} if scored_by else {}
        best = _read_best(run.best)
        self._best = best if best and best.get("by", scored_by) == scored_by else None
        self._step: int | None = None  # of the checkpoint that was saved or restored last

    @property
    def latest(self) -> str | None:
        """The file prefix of the checkpoint that was saved or restored last."""
        return None if self._step is None else _prefix(self._run.checkpoints, self._step)

    def steps(self) -> list[int]:
        """The steps of the run's checkpoints, the latest last."""
        return _steps_that_count(self._run.checkpoints)

    def restore_latest(self) -> int | None:
        """Restores the latest checkpoint, and returns its step; None if there is no checkpoint yet.

        Instead of a damaged one, it takes the one before, with a warning. Variables that do not exist yet are restored
        when they are created.
        """
        steps = self.steps()
        for step in reversed(steps):
            prefix = _prefix(self._run.checkpoints, step)
            damage = _damage_of(prefix)
            if not damage:
                _read(self._checkpoint, prefix, f"{prefix}: what it holds")
                self._step = step
                return step
            _log.warning("%s: is damaged (%s); using the checkpoint before it", prefix, damage)
        if steps:
            raise InputError(f"{self._run.checkpoints}: every checkpoint is damaged; delete the folder to start over")
        self._best = None  # belonged to a training whose checkpoints are gone
        if self._is_chief:
            (self._run.best / "best.json").unlink(missing_ok=True)
        return None

    def save(self, step: int) -> None:
        """Saves a checkpoint, unless this step was saved or restored last. Those of later steps become invalid."""
        if step == self._step:
            return  # if killed while overwriting it, nothing would be left
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
            replace_file(directory / "checkpoint", "\n".join(lines) + "\n")
            _sweep(directory, steps)

    def save_best(self, step: int, score: float) -> bool:
        """Saves to `best/` if the score exceeds all earlier ones, even from before a resume; returns whether it did."""
        best = self._best
        if math.isnan(score) or (best and (step == best["step"] or not score > best["score"])):
            return False
        self._write(self._run.best, step)
        self._best = {"step": int(step), "score": float(score), **self._scored_by}
        if self._is_chief:
            replace_file(self._run.best / "best.json", json.dumps(self._best) + "\n")
            _sweep(self._run.best, [step])
        return True

    def _write(self, directory, step):
        import tensorflow as tf

        try:
            if self._is_chief:
                self._checkpoint.write(_prefix(directory, step))
            else:  # the chief needs this worker's part of the variables
                with tempfile.TemporaryDirectory() as elsewhere:
                    self._checkpoint.write(_prefix(pathlib.Path(elsewhere), step))
        except (tf.errors.UnavailableError, tf.errors.AbortedError):  # another worker is lost, who had a part of them
            raise
        except tf.errors.OpError as error:
            raise InputError(f"{directory}: the checkpoint cannot be written ({_first_line(error)})") from error


def find_checkpoint(path: str | os.PathLike, flag: str = "run", which: str = "latest") -> str:
    """Finds the prefix of a checkpoint's files.

    Args:
      path: a run directory, or the prefix itself.
      flag: the flag that gives the path, for messages.
      which: `"latest"` or `"best"`, if `path` is a run.
    """
    place, what = pathlib.Path(absolute(path)), f"{flag}={path}"
    prefix = str(place).removesuffix(".index")
    if pathlib.Path(f"{prefix}.index").is_file():
        return prefix
    run = Run(place)
    if not (run.path / FLAGFILE).is_file():
        why = "is a file, but not a checkpoint; a run is a folder" if place.is_file() else "no such run or checkpoint"
        raise InputError(f"{what}: {why}")
    steps, best = _steps_that_count(run.checkpoints), _read_best(run.best)
    if which == "best" and best:
        return _prefix(run.best, best["step"])
    if not steps:
        raise InputError(f"{what}: has no checkpoint yet")
    if which == "best":
        raise InputError(f"{what}: has no best checkpoint, as no probe has run; use the latest")
    return _prefix(run.checkpoints, steps[-1])


def load_weights(path: str | os.PathLike, flag: str = "run", which: str = "latest", **objects: Any) -> str:
    """Restores networks from a run or a checkpoint, such as `load_weights(path, classifier=classifier)`.

    Args:
      path, flag, which: see `find_checkpoint`, whose prefix is returned.
      objects: networks whose variables exist, under their names in the checkpoint.
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
        # TensorFlow would notice too, but halfway through, and with many lines of output.
        missing = collections.Counter(tuple(variable.shape) for variable in network.variables) - held
        if missing:
            expected = ", ".join(str(list(shape)) for shape in list(missing)[:3])
            raise InputError(f"{what}: its {name} is another network, without weights of shape {expected}")
        _read(tf.train.Checkpoint(**{name: network}), prefix, f"{what}: its {name}")
    return prefix


def digest(prefix: str) -> str:
    """Identifies the weights: 16 hexadecimal digits of the SHA-256 of a checkpoint's data files."""
    path, total = pathlib.Path(prefix), hashlib.sha256()
    for data in sorted(p for p in path.parent.iterdir() if p.name.startswith(f"{path.name}.data-")):
        with data.open("rb") as file:
            while piece := file.read(1 << 20):
                total.update(piece)
    return total.hexdigest()[:16]


def _read(checkpoint, prefix, what):
    try:
        status = checkpoint.read(prefix).expect_partial()  # optimisers may not have created their variables yet
        status.assert_existing_objects_matched()
    except ValueError as error:
        raise InputError(f"{what} has other shapes ({_first_line(error)})") from error
    except AssertionError as error:
        raise InputError(f"{what} is of another architecture") from error


def _damage_of(prefix):
    """What is wrong with a checkpoint; None if all of it can be read and matches its checksums."""
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
    """Steps of the valid checkpoints, from TensorFlow's own file, so that `tf.train.latest_checkpoint` agrees."""
    path = directory / "checkpoint"
    return [int(s) for s in re.findall(r'all_\w+: "step-(\d+)"', path.read_text())] if path.is_file() else []


def _read_best(directory):
    """The best checkpoint so far: `"step"`, `"score"`, and `"by"` what it was scored; None without one."""
    path = directory / "best.json"
    return json.loads(path.read_text()) if path.is_file() else None


def _sweep(directory, steps):
    """Deletes checkpoints of other steps, and the remains of interrupted writes."""
    for path in list(directory.iterdir()):
        matched = re.match(r"step-(\d+)(\.index$|\.data-\d+-of-\d+$)?", path.name)
        if matched and not (matched[2] and int(matched[1]) in steps):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _first_line(error):
    return str(getattr(error, "message", error)).strip().splitlines()[0]
