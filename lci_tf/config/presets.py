"""The default settings for each data set of the paper, and the source of every value.

A value is the paper's where the paper gives one, else the authors' (from their TensorFlow 1 release), else ours; every
value is marked as one of the three. Where the paper's value was found not to work, the one that replaces it says what
the paper has. Sections, tables and equations are those of "Steering Self-Supervised Feature Learning Beyond Local
Pixel Statistics", CVPR 2020.
"""

import dataclasses
import math
from typing import Any

from lci_tf.config.names import TFDS, TILES, check_dataset
from lci_tf.config.settings import Settings, upgraded
from lci_tf.errors import InputError

# F sees across a hole of this many pixels, doubled for each of its halvings.
SEEN_ACROSS = 5.5


@dataclasses.dataclass(frozen=True)
class Cited:
    """A value, whose it is (`"paper"`, `"authors"` or `"ours"`), and its place in the source or the reason for it."""

    value: Any
    whose: str
    where: str


def _paper(value, where):
    return Cited(value, "paper", where)


def _authors(value, where):
    return Cited(value, "authors", where)


def _ours(value, where):
    return Cited(value, "ours", where)


_STL10 = {
    "crop_size": _paper(64, "Ablation Experiments"),
    "margin": _authors(16, "they transform 80 pixels, then crop 64"),
    "resize": _paper(96, "the size of STL-10's images"),
    "backbone": _paper("alexnet_small", "Experiments"),
    "width": _paper(1.0, "Experiments"),
    "sync_bn": _ours(False, "the paper does not say; Keras's default"),
    "mixed_precision": _ours("float32", "the paper does not say; the safe choice"),
    "batch_size": _paper(64, "Ablation Experiments"),
    "epochs": _paper(200, "Ablation Experiments"),
    "learning_rate": _paper(3e-4, "Experiments"),
    "final_learning_rate": _paper(3e-7, "Experiments"),
    "beta_1": _paper(0.5, "Experiments"),
    "beta_2": _paper(0.99, "Experiments"),
    "weight_decay": _paper(1e-4, "Experiments"),
    "transforms": _paper(("rot", "warp", "lci"), "eq. 1"),
    "warp_grid": _ours(4, "the paper has a uniform grid, and does not say how fine"),
    "warp_strength": _paper(0.1, "Random Warping"),
    "random_warp_points": _paper(False, "Random Warping"),
    "tilt": _authors(0.07, "they rotate half of each class by up to 0.07π"),
    "resample": _ours("once", "so that warped images are no softer than others"),
    "patch_size": _paper(48, "Table 1, baseline"),
    "border": _authors(3, "the paper has 2"),
    "noise_scale": _authors(0.1, "the paper has 1; see docs/lci.md"),
    "border_weight": _paper(50.0, "eq. 5"),
    "autoencoding_weight": _paper(50.0, "Preventing Degenerate Learning"),
    "inpainter_learning_rate": _paper(2e-4, "Experiments"),
    "discriminator_learning_rate": _authors(8e-4, "four times F's; the paper has 2e-4; see docs/lci.md"),
    "adversarial_beta_1": _paper(0.5, "Experiments"),
    "inpainter_halvings": _authors(3, "the paper has 2, too few for F to see across the hole; see docs/lci.md"),
    "discriminator_halvings": _paper(2, "Supplement, Table 8"),
    "discriminator_pooling": _authors("sum", "with the paper's average, D hardly learns; see docs/lci.md"),
    "adversarial_cosine": _ours(True, "with the paper's fixed rates, F outpaces C at the end; see docs/lci.md"),
    "adversarial_classifier": _paper(True, "eq. 5"),
    "patch_autoencoding": _paper(True, "Preventing Degenerate Learning"),
    "tiles": _paper(4, "Fig. 1, footnote"),
    "seam": _ours(4, "a quarter of a tile; the paper does not give a width"),
}

_CELEBA = {
    **_STL10,
    "crop_size": _paper(96, "Combination of Image Transformations"),
    "margin": _ours(24, "a quarter of the crop, as on STL-10"),
    "resize": _ours(144, "one and a half crops, as on STL-10"),
    "batch_size": _ours(64, "as on STL-10"),
    "epochs": _paper(100, "Combination of Image Transformations"),
    "patch_size": _ours(80, "about three quarters of the crop, as on STL-10, and divisible by 16"),
    "border": _paper(2, "Experiments"),
    "inpainter_halvings": _ours(4, "so that F sees across the hole; the paper has 2"),
    "seam": _ours(6, "a quarter of a tile, as on STL-10"),
}

_IMAGENET = {
    **_STL10,
    "crop_size": _paper(128, "Unsupervised Feature Learning Benchmarks"),
    "margin": _ours(32, "a quarter of the crop, as on STL-10"),
    "resize": _ours(192, "one and a half crops, as on STL-10"),
    "backbone": _paper("alexnet", "Unsupervised Feature Learning Benchmarks"),
    "batch_size": _paper(96, "Unsupervised Feature Learning Benchmarks"),
    "epochs": _paper(200, "Unsupervised Feature Learning Benchmarks"),
    "patch_size": _ours(96, "three quarters of the crop, as on STL-10"),
    "border": _paper(4, "Experiments"),
    "inpainter_halvings": _ours(4, "so that F sees across the hole; the paper has 3"),
    "discriminator_halvings": _paper(3, "Supplement, Table 8"),
    "seam": _ours(8, "a quarter of a tile, as on STL-10"),
}

# Any other data set. The paper does not train on these; its values for STL-10 are the natural starting point.
_OTHER = {
    **_STL10,
    **{name: _ours(_STL10[name].value, "as on STL-10") for name in ("crop_size", "batch_size", "epochs", "patch_size")},
    "resize": _ours(96, "one and a half crops, so that a crop shows more than a texture"),
}

# An inpainter of seams sees both sides of a seam without being deep, and is guided by the pixels that it replaces;
# these are the values it was tried with. Tiles are moved, not resampled, and need no margin.
_SEAMS = {
    "margin": 0,
    "noise_scale": 1.0,
    "inpainter_halvings": 2,
    "discriminator_learning_rate": 2e-4,
    "discriminator_pooling": "average",
    "adversarial_cosine": False,
}

PRESETS: dict[str, dict[str, Cited]] = {"stl10": _STL10, "celeb_a": _CELEBA, "imagenet2012": _IMAGENET}


def preset(dataset: str) -> dict[str, Cited]:
    """The default settings for a data set by their names; data sets that the paper does not use share one preset."""
    return PRESETS.get(dataset.removeprefix(TFDS), _OTHER)


def resolve(dataset: str, given: dict[str, Any]) -> Settings:
    """The preset of `dataset`, overridden by the values `given`. Sizes that depend on the crop scale with it.

    When `crop_size` is given, then margin, resize, patch and seam keep their proportion to the crop, and F gets as many
    halvings as it takes to see across the hole, unless they are given too. An inpainter of seams between tiles has
    presets of its own.
    """
    given = upgraded(given)
    check_dataset(dataset)
    base = preset(dataset)
    values = {name: cited.value for name, cited in base.items()}
    unknown = given.keys() - values.keys()
    if unknown:
        raise InputError(f"unknown settings {', '.join(sorted(unknown))}; known are {', '.join(values)}")
    if "crop_size" in given and given["crop_size"] != values["crop_size"]:
        share = given["crop_size"] / values["crop_size"]
        hole = values["patch_size"] * share - 2 * values["border"]
        values["inpainter_halvings"] = max(2, math.ceil(math.log2(max(hole, 1) / SEEN_ACROSS)))
        divisor = 2 ** given.get("inpainter_halvings", values["inpainter_halvings"])
        # F halves patches `inpainter_halvings` times; half of a band lies on each side of its seam.
        for name, step in {"margin": 1, "resize": 1, "patch_size": divisor, "seam": 2}.items():
            values[name] = math.floor(values[name] * share / step + 0.5) * step
    if given.get("transforms") == (TILES,):
        values |= _SEAMS
    return Settings(**{**values, **given})


def describe(dataset: str, settings: Settings) -> str:
    """One line per setting: its value, and if this is not the paper's, whose it is."""
    lines = [f"Settings for {dataset} (unmarked ones are the paper's)"]
    group = None
    for field in dataclasses.fields(settings):
        if field.metadata["group"] != group:
            group = field.metadata["group"]
            lines.append(f"  {group}")
        value, cited = getattr(settings, field.name), preset(dataset)[field.name]
        if value != cited.value:
            whose = {"paper": "the paper's", "authors": "the authors'", "ours": "the preset's"}[cited.whose]
            mark = f"! not {whose}, which is {_written(cited.value)} ({cited.where})"
        elif cited.whose == "authors":
            mark = f"* the authors' code: {cited.where}"
        elif cited.whose == "ours":
            mark = f"* ours: {cited.where}"
        else:
            mark = ""
        lines.append(f"    {field.name:28s} {_written(value):14s} {mark}".rstrip())
    return "\n".join(lines)


def _written(value):
    return ",".join(value) if isinstance(value, tuple) else f"{value:g}" if isinstance(value, float) else str(value)
