"""What the figures of a run are made of: the run and its weights, and images."""

import dataclasses
import functools
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from matplotlib.figure import Figure

from lci_tf import data, runs
from lci_tf.config.settings import Settings
from lci_tf.data import labelled
from lci_tf.data.input_report import InputReport
from lci_tf.data.source import Source
from lci_tf.runs import checkpoints, provenance, trained

Made = TypeVar("Made")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Materials:
    """What figures are made of. Whatever takes time is opened when it is first asked for.

    Attributes:
      run_dir: a run, or a checkpoint of one.
      checkpoint: of a run, the `"latest"` or the `"best"`.
      compare_run_dir: further runs, for the curves.
      images: data set, split or None, and folders; None for the images of the run.
      download: whether they may be fetched, see `data.fetch`.
      layers: whose features are looked at.
      out_dir: where figures go, by default into the run.
      mean_images, knn_images, map_images: how many to take at most.
    """

    run_dir: str
    checkpoint: str = "latest"
    compare_run_dir: Sequence[str] = ()
    images: tuple[str, str | None, Sequence[str]] | None = None
    download: bool = False
    layers: Sequence[str] = ("conv5",)
    seed: int = 0
    max_bad_images: float = 0.01
    out_dir: str | None = None
    mean_images: int = 8000
    knn_images: int = 5000
    map_images: int = 1000

    @functools.cached_property
    def run(self) -> runs.Run:
        run = runs.Run(self.run_dir)
        if (run.path / runs.FLAGFILE).is_file():
            return run  # perhaps without a checkpoint
        return trained.run_of(checkpoints.find_checkpoint(self.run_dir, "--run_dir"))

    @property
    def folder(self) -> pathlib.Path:
        """The folder for the figures: by default in the run, with a subfolder for images that are not the run's."""
        if self.out_dir:
            return pathlib.Path(self.out_dir).expanduser()
        return self.run.path / "figures" / (self._name_of_images() if self.images else "")

    @functools.cached_property
    def settings(self) -> Settings:
        return self.run.settings()

    @functools.cached_property
    def prefix(self) -> str:
        """Of the checkpoint's files."""
        return checkpoints.find_checkpoint(self.run_dir, "--run_dir", self.checkpoint)

    @functools.cached_property
    def model(self) -> trained.FeatureModel:
        return trained.from_run(self.prefix)

    @functools.cached_property
    def source(self) -> Source:
        """Images to pre-train on."""
        return data.open_source(*self.available)

    @functools.cached_property
    def test_source(self) -> Source:
        """Images whose features are looked at."""
        if self.images:
            dataset, split, folders = self.available
            return labelled.open_any(dataset, folders, split)
        return self.source

    @functools.cached_property
    def available(self) -> tuple[str, str | None, Sequence[str]]:
        """Data set, split and folders of the images, which are fetched first if that is allowed."""
        dataset, split, folders = self.images or self.run.data()
        if self.download:
            data.fetch(dataset, folders)
        return dataset, split, folders

    def report(self, source: Source) -> InputReport:
        return InputReport(source, self.max_bad_images)

    def once(self, make: "Callable[[Materials], Made]") -> Made:
        """`make(self)`, made when it is first asked for: what several figures need."""
        if make not in self._made:
            self._made[make] = make(self)
        return self._made[make]

    @functools.cached_property
    def _made(self) -> dict[Callable, Any]:
        return {}

    def _name_of_images(self) -> str:
        """A name for a folder: other images have another one."""
        identified = [provenance.of_images(source) for source in (self.source, self.test_source)]
        return f"{re.sub('[/:]', '_', self.available[0])}_{provenance.digest({'images': identified})}"

    def question(self, figure: "PaperFigure") -> provenance.Question:
        """What a figure depends on: the run itself, its weights, and images, as far as it shows them."""
        images = figure.images and getattr(self, figure.images)
        network = {"digest": checkpoints.digest(self.prefix)} if figure.shows_weights else None
        return provenance.question(
            run=self.run.path.name,
            compared=[pathlib.Path(run).name for run in self.compare_run_dir],
            network=network,
            layers=self.layers,
            data=images and provenance.of_images(images),
            seed=self.seed,
        )


class PaperFigure(NamedTuple):
    """A figure that can be made from a run.

    Attributes:
      draw: gives figures by the names of their files; or, if it has written something else than a figure, how to
        look at it. Raises `InputError` if there is not what it needs.
      images: which of `Materials` it shows.
      shows_weights: whether it shows what the networks have learned.
    """

    draw: Callable[[Materials], Mapping[str, Figure | str]]
    images: Literal["source", "test_source"] | None = "source"
    shows_weights: bool = True
