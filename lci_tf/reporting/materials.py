"""The figures that can be made from a run, each from what it needs of the run and of images."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from lci_tf import data
from lci_tf.config.presets import Settings
from lci_tf.data import labelled, mean_image, share
from lci_tf.data.input_report import InputReport
from lci_tf.data.pipeline import Crops
from lci_tf.data.source import Source
from lci_tf.errors import InputError
from lci_tf.evaluation.neighbours import atlas, knn_evaluation, retrieval
from lci_tf.evaluation.neighbours import exact_search as knn
from lci_tf.plotting import curves, panels, plots
from lci_tf.plotting.pictures import levels
from lci_tf.pretraining import batches, training
from lci_tf.pretraining.learner import Examples
from lci_tf.pretraining.players import Players
from lci_tf.reporting import examples
from lci_tf.runs import checkpoints, trained
from lci_tf.runs import run as runs

_KS = (1, 5, 10, 20, 50, 100)
_QUERIES = _NEIGHBOURS = 8
_TILED = 6
_BATCH = 32
Figures = dict[str, Figure]  # by the name of the file


@dataclasses.dataclass(frozen=True, kw_only=True)
class Materials:
    """What figures are made of. Whatever takes time is opened when it is first asked for.

    Attributes:
      run_dir: a run, or a checkpoint of one.
      checkpoint: of a run, the `"latest"` or the `"best"`.
      compare_run_dir: further runs, for the curves.
      images: data set, split or None, and folders; None for the images of the run.
      layers: whose features are looked at.
      out_dir: where figures go, by default into the run.
      mean_images, knn_images, map_images: how many to take at most.
    """

    run_dir: str
    checkpoint: str = "latest"
    compare_run_dir: Sequence[str] = ()
    images: tuple[str, str | None, Sequence[str]] | None = None
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
        return pathlib.Path(self.out_dir or self.run.path / "figures").expanduser()

    @functools.cached_property
    def settings(self) -> Settings:
        return self.run.settings()

    @functools.cached_property
    def prefix(self) -> str:
        return checkpoints.find_checkpoint(self.run_dir, "--run_dir", self.checkpoint)

    @functools.cached_property
    def model(self) -> trained.FeatureModel:
        return trained.from_run(self.prefix)

    @functools.cached_property
    def source(self) -> Source:
        """Images to pre-train on."""
        return data.open_source(*(self.images or self.run.data()))

    @functools.cached_property
    def test_source(self) -> Source:
        """Images whose features are looked at."""
        if self.images:
            dataset, split, folders = self.images
            return labelled.open_any(dataset, folders, split)
        return self.source

    @functools.cached_property
    def learner(self) -> Players:
        return training.restored(self.prefix)

    @functools.cached_property
    def batch(self) -> dict[str, Any]:
        """The first images, with their draws."""
        report = self.report(self.source)

        def make(worker, start_step):
            seen = (self.source, self.settings, self.learner.transforms, self.seed)
            return batches.training_batches(*seen, report, start_step, worker)

        with report.one_line_errors():
            return training.first_rows(make)

    @functools.cached_property
    def examples(self) -> Examples:
        """What C and F make of these; what C sees is cut out of the middle, so that it can be compared."""
        batch = examples.centred(self.batch)
        return self.learner.examples(batch["image"], batch["draws"])

    @functools.cached_property
    def atlas(self) -> atlas.Atlas:
        source = share.at_most(self.test_source, self.map_images)
        return atlas.atlas(self.network.model.maps, source, self.network.crops, self.report(source), self.folder)

    @functools.cached_property
    def network(self) -> knn_evaluation.Network:
        crops = Crops(self.settings.crop_size, self.settings.resize)
        return knn_evaluation.Network(self.run.path.name, self.model.only(self.layers), crops)

    def protocol(self, views: str) -> knn_evaluation.Protocol:
        return knn_evaluation.Protocol(views, False, self.seed, _BATCH, self.max_bad_images, self.folder)

    def report(self, source: Source) -> InputReport:
        return InputReport(source, self.max_bad_images)


def _curves(materials: Materials) -> Figures:
    shown = [materials.run, *map(runs.Run, materials.compare_run_dir)]
    names = [run.path.name for run in shown]
    logged = {}
    for run, name in zip(shown, names, strict=True):
        run.flags()  # refuses what is no run
        logged[name if names.count(name) == 1 else str(run.path)] = run.metrics()
    return {"curves": curves.curves(logged)}


def _transformations(materials: Materials) -> Figures:
    if "C" not in materials.run.facts()["parameters"]:
        raise InputError(f"--run_dir={materials.run.path}: has no C, since it trained F and D alone")
    shown, crop_size = materials.examples, materials.settings.crop_size
    originals, edge = examples.middle(shown.images, crop_size)
    # A source image for each class, of those that carry no autoencoded patch.
    numbers = [(2 * i + 1) % len(originals) for i in range(len(shown.transformed))]
    centres = [(crop_size // 2,) * 2] * len(numbers)
    if "lci" in shown.transformed:
        i = list(shown.transformed).index("lci")
        centres[i] = tuple(shown.patches.places[numbers[i]] + materials.settings.patch_size // 2 - edge)
    transformed = [levels(images[n]) for images, n in zip(shown.transformed.values(), numbers, strict=True)]
    figure = panels.transformations(list(shown.transformed), levels(originals[numbers]), transformed, centres)
    return {"transformations": figure}


def _tiles(materials: Materials) -> Figures:
    if not materials.settings.trains_seams:
        raise InputError(f"--run_dir={materials.run.path}: inpaints no seams; give a run with --transforms=tiles")
    _, permuted = materials.learner.inpaint(materials.batch["image"], materials.batch["draws"], training=False)
    rows = [levels(images.numpy()[:_TILED]) for images in (materials.batch["image"], permuted.filled)]
    return {"tiles": panels.table(rows)}


def _lci(materials: Materials) -> Figures:
    shown = _with_patches(materials)
    images, inpainted = levels(shown.images), levels(shown.inpainted)
    return {"lci": panels.lci(images, inpainted, shown.patches.places, materials.settings.patch_size)}


def _patches(materials: Materials) -> Figures:
    given = _with_patches(materials).patches
    rows = {name: getattr(given, name) for name in ("original", "erased", "inpainted", "autoencoded")}
    return {"patches": panels.patches({name: levels(row) for name, row in rows.items() if row is not None})}


def _with_patches(materials):
    if "lci" not in materials.settings.transforms:
        raise InputError(
            f"--run_dir={materials.run.path}: inpaints no patches, since lci is not among its --transforms"
        )
    return materials.examples


def _filters(materials: Materials) -> Figures:
    return {"filters": panels.filters(materials.model.maps.weights[0].numpy())}


def _mean_image(materials: Materials) -> Figures:
    side, source = materials.settings.crop_size, share.at_most(materials.source, materials.mean_images)
    mean = mean_image.mean_image(source, Crops(side, resize=side), materials.report(source))  # of whole images
    patch_size = side // 4
    places = mean_image.telling_patches(mean, patch_size)
    return {"mean_image": panels.mean_image(mean.round().astype(np.uint8), places, patch_size)}


def _neighbours(materials: Materials) -> Figures:
    source = share.at_most(materials.test_source, materials.knn_images)
    found = knn_evaluation.features_of(materials.network, source, materials.protocol("centre"))
    if len(found.numbers) <= _NEIGHBOURS:
        raise InputError(f"{source.name} {source.split}: has only {len(found.numbers)} images that can be read")
    queries = retrieval.random_queries(found.numbers, _QUERIES, materials.seed)
    figures = {}
    for layer, features in found.layers.items():
        knn.normalise(features)
        retrieved = retrieval.retrieve(found, features, queries, _NEIGHBOURS)
        needed = np.union1d(queries, retrieved.numbers)
        tiles = retrieval.tiles(source, needed)
        of_queries, of_neighbours = (tiles[np.searchsorted(needed, n)] for n in (queries, retrieved.numbers))
        figures[_named("neighbours", layer, materials)] = panels.neighbours(
            of_queries, of_neighbours, retrieved.is_right
        )
    return figures


def _knn(materials: Materials) -> Figures:
    if materials.images:
        dataset, split, folders = materials.images
        source = labelled.open_one(dataset, folders, split)
    elif materials.source.label_kind == "class":
        source = materials.source
    else:
        raise InputError("--dataset: give one with classes; the images of the run have none")
    source = share.at_most(source, materials.knn_images)
    ks = [k for k in _KS if source.count is None or k < source.count]
    protocol = materials.protocol("five")  # as the paper's figure of Places has it
    accuracies, _ = knn_evaluation.evaluate(materials.network, source, None, protocol, ks)
    return {"knn": plots.knn_accuracy(accuracies, chance=1 / len(source.label_names))}


def _map(materials: Materials) -> Figures:
    found, source = materials.atlas, materials.test_source
    labels, names = (found.labels, source.label_names) if source.label_kind == "class" else (None, ())
    return {
        _named("map", layer, materials): panels.image_map(
            atlas.on_a_plane(features, materials.seed), found.thumbnails, labels, names
        )
        for layer, features in found.features.items()
    }


def _named(figure, layer, materials):
    return figure if len(materials.layers) == 1 else f"{figure}_{layer}"


MAKERS: dict[str, Callable[[Materials], Figures]] = {
    "curves": _curves,
    "tiles": _tiles,
    "transformations": _transformations,
    "lci": _lci,
    "patches": _patches,
    "filters": _filters,
    "mean_image": _mean_image,
    "neighbours": _neighbours,
    "knn": _knn,
    "map": _map,
}
