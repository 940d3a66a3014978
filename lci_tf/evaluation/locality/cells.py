"""Measures the table of accuracies cell by cell (transformation, seed, window), and keeps finished cells in files."""

import dataclasses
import hashlib
import inspect
import json
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image
from tqdm import tqdm

from lci_tf import files, transforms
from lci_tf.config.settings import Settings
from lci_tf.evaluation.locality import telling, windows
from lci_tf.evaluation.locality.bags import WHOLE, Window
from lci_tf.evaluation.locality.pairs import Pairs
from lci_tf.evaluation.locality.telling import Budget, Judge
from lci_tf.plotting import pictures
from lci_tf.runs import provenance
from lci_tf.runs.provenance import Question

Summary = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Cell:
    """One measurement: how well windows of one size tell one transformation, with one seed."""

    transformation: str
    seed: int
    window: Window

    @property
    def stem(self) -> str:
        """The stem of its files' names."""
        return f"{file_name(self.transformation)}_{self.window}_seed{self.seed}"


@dataclasses.dataclass(frozen=True)
class Kept:
    """Finished cells in a folder: NAME.json has what the cell depends on and its result, NAME.png shows windows."""

    folder: pathlib.Path

    def find(self, cell: Cell, asked: Question) -> Summary | None:
        """The result of a cell, if it is finished and depends on exactly this; else None."""
        try:
            found = json.loads((self.folder / f"{cell.stem}.json").read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        return found["found"] if found["asked"] == asked else None

    def keep(self, cell: Cell, asked: Question, found: Summary) -> None:
        text = json.dumps({"asked": asked, "found": found}, indent=2)
        files.replace_file(self.folder / f"{cell.stem}.json", f"{text}\n")

    def strip(self, cell: Cell) -> pathlib.Path:
        return self.folder / f"{cell.stem}.png"

    def join_strips(self, cells: Sequence[Cell], path: pathlib.Path) -> bool:
        """Writes one picture of the cells' windows, a row for each; returns whether there are any."""
        strips = [np.asarray(Image.open(self.strip(cell))) for cell in cells if cell.window != WHOLE]
        if strips:
            pictures.save(path, np.concatenate(strips))
        return bool(strips)


def file_name(transformation: str) -> str:
    return re.sub(r"\W", "_", transformation)


def question(
    cell: Cell, settings: Settings, network: dict[str, Any] | None, images: dict[str, Any], budget: Budget
) -> Question:
    """Everything that a cell's result depends on; see `provenance`.

    Args:
      cell: what is measured.
      settings: settings with this transformation only.
      network: origin of the F that inpaints or of the C that judges, if there is one.
      images: identifies the source images.
      budget: how much to train.
    """
    (transform,) = transforms.create(settings.transforms, settings)
    code = pathlib.Path(inspect.getfile(type(transform))).read_bytes()
    return provenance.question(
        settings=dataclasses.asdict(settings),
        code=hashlib.sha256(code).hexdigest()[:16],  # users change the code of their own transformations
        network=network,
        data=images,
        budget=dataclasses.asdict(budget),
        seed=cell.seed,
        window=cell.window,
    )


def measure(
    questions: Mapping[Cell, Question],
    make: Callable[[str, int], tuple[Pairs, Pairs]],
    judge: Callable[[str], Judge | None],
    budget: Budget,
    kept: Kept,
) -> dict[Cell, Summary]:
    """Measures all cells; finished ones are read from their files.

    Args:
      questions: the cells, each with everything that it depends on. Cells with the same transformation and seed must
        be consecutive, so that their images are made once.
      make: function from a transformation and a seed to pairs to train on and pairs to test on.
      judge: function from a transformation to a network that already classifies whole images, or None.
      budget: how much to train.
      kept: where finished cells are kept.
    """
    kept.folder.mkdir(parents=True, exist_ok=True)
    found: dict[Cell, Summary] = {}
    made, made_of = None, None
    with tqdm(total=len(questions), unit=" cells", leave=False) as bar:
        for cell, asked in questions.items():
            bar.set_description(f"{cell.transformation}, r = {cell.window}, seed {cell.seed}")
            summary = kept.find(cell, asked)
            if summary is None:
                if made is None or made_of != (cell.transformation, cell.seed):
                    made = None  # frees memory before others are made
                    made, made_of = make(cell.transformation, cell.seed), (cell.transformation, cell.seed)
                train, test = made
                summary = _measure(cell, train, test, judge(cell.transformation), budget, kept)
                kept.keep(cell, asked, summary)
            found[cell] = summary
            bar.update()
    return found


def _measure(cell, train, test, judge, budget, kept):
    network = judge if cell.window == WHOLE and judge else telling.learn(cell.window, train, budget, cell.seed)
    evidence = telling.ask(network, test)
    if cell.window != WHOLE:
        pictures.save(kept.strip(cell), windows.strip(cell.transformation, cell.window, evidence, test))
    return telling.summary(evidence)
