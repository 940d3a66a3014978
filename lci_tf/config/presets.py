"""The paper's settings per data set, and where each comes from.

A setting is the paper's where the paper gives one, else the authors' (their TensorFlow 1 release), else ours; which of
them is part of the value. The places named are in "Steering Self-Supervised Feature Learning Beyond Local Pixel
Statistics", CVPR 2020.
"""

import dataclasses
import math
from typing import Any

from lci_tf.errors import InputError

# What --transforms takes, and the class behind each name. A new one is a file in lci_tf/transforms and a line here.
TRANSFORMS = {
    "rot": "lci_tf.transforms.rotation:Rotations",
    "warp": "lci_tf.transforms.warp:Warp",
    "lci": "lci_tf.transforms.lci:LimitedContextInpainting",
}
TILES = "tiles"  # not for C to tell: trains the inpainter of a test
BACKBONES = ("alexnet_small", "alexnet", "resnet34")
# What --dataset takes, beside tfds:NAME. `lci_tf.data` has what opens each.
DATASETS = ("synthetic", "folder", "tfrecord", "stl10", "celeb_a", "imagenet2012", "places365_small", "voc/2007",
            "voc/2012")  # fmt: skip
TFDS = "tfds:"


def _setting(help: str, group: str, choices: tuple[str, ...] = ()):
    return dataclasses.field(metadata={"help": help, "group": group, "choices": choices})


_LCI = "Limited context inpainting"
_TILES = "Permuted tiles"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What a pre-training does."""

    crop_size: int = _setting("side of the square that C sees, in pixels", "Images")
    margin: int = _setting("transformations are made on the crop plus this, then cut to it at a random place", "Images")
    resize: int = _setting("short side of the image before a crop is cut; smaller images are not enlarged", "Images")
    backbone: str = _setting("which network C is", "Networks", choices=BACKBONES)
    width: float = _setting("multiplies the channels of C, F and D; below 1 for small machines", "Networks")
    sync_bn: bool = _setting("batch normalisation over all replicas together", "Networks")
    mixed_precision: str = _setting("what the networks compute in", "Networks",
                                    choices=("float32", "bfloat16", "float16"))  # fmt: skip
    batch_size: int = _setting("source images per step, over all replicas", "Training")
    epochs: int = _setting("passes over the data set", "Training")
    learning_rate: float = _setting("of C, at the start", "Training")
    final_learning_rate: float = _setting("of C, at the end of the cosine", "Training")
    beta_1: float = _setting("of C's AdamW", "Training")
    beta_2: float = _setting("of C's AdamW", "Training")
    weight_decay: float = _setting("share of a weight of C lost per step, at the start of the cosine", "Training")
    transforms: tuple[str, ...] = _setting(
        f"which to tell apart, of {','.join(TRANSFORMS)}, and your own as module:Class; or {TILES} alone, which trains "
        "no C, but the inpainter of seams between permuted tiles",
        "Transformations",
    )
    warp_grid: int = _setting("control points of the warp along each side", "Transformations")
    warp_strength: float = _setting("largest shift of a control point, as a share of the image", "Transformations")
    random_warp_points: bool = _setting("control points anywhere, not on a grid", "Transformations")
    tilt: float = _setting("half of each class is turned by at most this, in half turns", "Transformations")
    patch_size: int = _setting("side of the patch that is inpainted", _LCI)
    border: int = _setting("pixels at the patch's edge that F sees", _LCI)
    noise_scale: float = _setting("standard deviation of the noise in its centre", _LCI)
    border_weight: float = _setting("λ_border, for keeping the border", _LCI)
    autoencoding_weight: float = _setting("λ_AE, for autoencoding patches", _LCI)
    inpainter_learning_rate: float = _setting("of F", _LCI)
    discriminator_learning_rate: float = _setting("of D", _LCI)
    adversarial_beta_1: float = _setting("of F's and D's Adam", _LCI)
    deep_inpainter: bool = _setting("F and D with the layers in parentheses in their tables", _LCI)
    discriminator_pooling: str = _setting("of D's last map", _LCI, choices=("average", "sum"))
    adversarial_cosine: bool = _setting("let F's and D's learning rates follow C's cosine", _LCI)
    adversarial_classifier: bool = _setting("train F against C too, not only against D", _LCI)
    patch_autoencoding: bool = _setting("have F autoencode patches, for half of the images not inpainted", _LCI)
    tiles: int = _setting("tiles along each side of the image", _TILES)
    seam: int = _setting("width of the band along seams that is inpainted, in pixels", _TILES)

    @property
    def trains_seams(self) -> bool:
        """Whether an inpainter of seams between permuted tiles is trained, and no C."""
        return self.transforms == (TILES,)

    def check_images(self) -> None:
        """Raises `InputError` if what concerns single images contradicts itself."""
        _require(self.crop_size >= 8, f"--crop_size={self.crop_size}: must be at least 8")
        _require(
            self.resize >= self.crop_size, f"--resize={self.resize}: smaller than the crop of {self.crop_size} pixels"
        )
        _require(self.batch_size >= 1, f"--batch_size={self.batch_size}: must be at least 1")

    def check(self, replicas: int = 1) -> None:
        """Raises `InputError` if the settings contradict each other."""
        self.check_images()
        for name, value in vars(self).items():
            _require(not isinstance(value, float) or math.isfinite(value), f"--{name}={value}: must be a finite number")
        for name in ("epochs", "patch_size", "border"):
            _require(getattr(self, name) >= 1, f"--{name}={getattr(self, name)}: must be at least 1")
        _require(self.warp_grid >= 2, f"--warp_grid={self.warp_grid}: must be at least 2, the corners")
        for name in ("beta_1", "beta_2", "adversarial_beta_1"):
            _require(0 <= getattr(self, name) < 1, f"--{name}={getattr(self, name)}: must be at least 0 and below 1")
        for name in ("learning_rate", "final_learning_rate", "inpainter_learning_rate", "discriminator_learning_rate"):
            _require(getattr(self, name) > 0, f"--{name}={getattr(self, name)}: must be above 0")
        _require(
            self.final_learning_rate <= self.learning_rate,
            f"--final_learning_rate={self.final_learning_rate:g}: above --learning_rate={self.learning_rate:g}",
        )
        for name in ("margin", "weight_decay", "warp_strength", "tilt", "noise_scale", "border_weight",
                     "autoencoding_weight"):  # fmt: skip
            _require(getattr(self, name) >= 0, f"--{name}={getattr(self, name)}: must not be negative")
        _require(self.tilt <= 0.5, f"--tilt={self.tilt:g}: is in half turns, and must be at most 0.5")
        _require(self.transforms, "--transforms: is empty; C needs at least one transformation to tell from identity")
        for name in self.transforms:
            _require(
                name in (*TRANSFORMS, TILES) or ":" in name,
                f"--transforms={name}: unknown; expected some of {','.join(TRANSFORMS)}, or module:Class of your own; "
                f"or {TILES} alone",
            )
        _require(
            TILES not in self.transforms or self.trains_seams,
            f"--transforms={','.join(self.transforms)}: {TILES} is no class of C's, but trains an inpainter of seams; "
            "give it alone",
        )
        _require(len(set(self.transforms)) == len(self.transforms), "--transforms: names a transformation twice")
        _require(
            self.resize >= self.crop_size + self.margin,
            f"--resize={self.resize}: smaller than crop and margin together, {self.crop_size} + {self.margin} pixels",
        )
        _require(
            self.patch_size <= self.crop_size,
            f"--patch_size={self.patch_size}: larger than the crop of --crop_size={self.crop_size}",
        )
        _require(
            2 * self.border < self.patch_size,
            f"--border={self.border}: leaves no centre to inpaint in a patch of --patch_size={self.patch_size}",
        )
        halvings = 8 if self.deep_inpainter else 4
        _require(
            self.patch_size % halvings == 0,
            f"--patch_size={self.patch_size}: F halves and doubles it, so it must be divisible by {halvings}",
        )
        _require(self.width > 0, f"--width={self.width:g}: must be above 0")
        _require(
            self.batch_size % replicas == 0,
            f"--batch_size={self.batch_size}: must be divisible by the {replicas} replicas",
        )
        _require(
            not (self.trains_seams or "lci" in self.transforms) or self.batch_size % (2 * replicas) == 0,
            f"--batch_size={self.batch_size}: must be divisible by two (D sees pairs)"
            + (f" on each of {replicas} replicas, so by {2 * replicas}" if replicas > 1 else ""),
        )
        if self.trains_seams:
            self._check_tiles(halvings)

    def _check_tiles(self, halvings):
        _require(self.tiles >= 2, f"--tiles={self.tiles}: must be at least 2, or there is no seam")
        _require(
            self.crop_size % (halvings * self.tiles) == 0,
            f"--crop_size={self.crop_size}: must be divisible by {halvings * self.tiles}, for {self.tiles} whole tiles "
            f"along each side, each divisible by {halvings}, which F halves and doubles",
        )
        side = self.crop_size // self.tiles
        _require(
            0 < self.seam < side and self.seam % 2 == 0,
            f"--seam={self.seam}: must be even, above 0 and below the side of a tile, {side} pixels",
        )
        _require(self.margin == 0, f"--margin={self.margin}: tiles have none, being moved and not resampled; give 0")


def _require(holds, message):
    if not holds:
        raise InputError(message)


@dataclasses.dataclass(frozen=True)
class Cited:
    """A value, whose it is (`"paper"`, `"authors"` or `"ours"`), and where it stands or why it is so."""

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
    "margin": _authors(16, "they cut 64 of 80 pixels after transforming"),
    "resize": _paper(96, "the size of STL-10's images"),
    "backbone": _paper("alexnet_small", "Experiments"),
    "width": _paper(1.0, "Experiments"),
    "sync_bn": _ours(False, "not said; Keras's default"),
    "mixed_precision": _ours("float32", "not said; the safe one"),
    "batch_size": _paper(64, "Ablation Experiments"),
    "epochs": _paper(200, "Ablation Experiments"),
    "learning_rate": _paper(3e-4, "Experiments"),
    "final_learning_rate": _paper(3e-7, "Experiments"),
    "beta_1": _paper(0.5, "Experiments"),
    "beta_2": _paper(0.99, "Experiments"),
    "weight_decay": _paper(1e-4, "Experiments"),
    "transforms": _paper(("rot", "warp", "lci"), "eq. 1"),
    "warp_grid": _ours(4, "a uniform grid; its number of points is not given"),
    "warp_strength": _paper(0.1, "Random Warping"),
    "random_warp_points": _paper(False, "Random Warping"),
    "tilt": _authors(0.07, "they turn half of each class by up to 0.07π"),
    "patch_size": _paper(48, "Table 1, baseline"),
    "border": _paper(2, "Experiments"),
    "noise_scale": _paper(1.0, "eq. 3"),
    "border_weight": _paper(50.0, "eq. 5"),
    "autoencoding_weight": _paper(50.0, "Preventing Degenerate Learning"),
    "inpainter_learning_rate": _paper(2e-4, "Experiments"),
    "discriminator_learning_rate": _paper(2e-4, "Experiments"),
    "adversarial_beta_1": _paper(0.5, "Experiments"),
    "deep_inpainter": _paper(False, "Supplement, Tables 7 and 8"),
    "discriminator_pooling": _paper("average", "Supplement, Table 8"),
    "adversarial_cosine": _paper(False, "Experiments"),
    "adversarial_classifier": _paper(True, "eq. 5"),
    "patch_autoencoding": _paper(True, "Preventing Degenerate Learning"),
    "tiles": _paper(4, "Fig. 1, footnote"),
    "seam": _ours(4, "a quarter of a tile; the band's width is not given"),
}

_CELEBA = {
    **_STL10,
    "crop_size": _paper(96, "Combination of Image Transformations"),
    "margin": _ours(24, "a quarter of the crop, as on STL-10"),
    "resize": _ours(144, "one and a half crops, as on STL-10"),
    "batch_size": _ours(64, "as on STL-10"),
    "epochs": _paper(100, "Combination of Image Transformations"),
    "patch_size": _ours(72, "three quarters of the crop, as on STL-10"),
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
    "deep_inpainter": _paper(True, "Supplement, Tables 7 and 8"),
    "seam": _ours(8, "a quarter of a tile, as on STL-10"),
}

# The paper does not train on these. What it says of STL-10 is where one would begin.
_OTHER = {
    **{name: cited if name not in ("crop_size", "batch_size", "epochs", "patch_size", "border", "deep_inpainter")
       else _ours(cited.value, "as on STL-10") for name, cited in _STL10.items()},
    "resize": _ours(96, "one and a half crops, so that a crop shows more than a texture"),
}  # fmt: skip

PRESETS: dict[str, dict[str, Cited]] = {"stl10": _STL10, "celeb_a": _CELEBA, "imagenet2012": _IMAGENET}


def preset(dataset: str) -> dict[str, Cited]:
    """The settings for a data set, by name; those for any other if it is none of the paper's."""
    return PRESETS.get(dataset.removeprefix(TFDS), _OTHER)


def check_name(dataset: str) -> None:
    """Raises `InputError` if there is no such data set. (Whether tensorflow-datasets has a name is asked of it.)"""
    if dataset not in DATASETS and not dataset.startswith(TFDS):
        raise InputError(f"--dataset={dataset}: unknown; expected one of {', '.join(DATASETS)}, or tfds:NAME")


def resolve(dataset: str, given: dict[str, Any]) -> Settings:
    """The preset of `dataset` with what was `given` instead. A crop of another size takes what hangs on it along.

    Where only `crop_size` is given, margin, resize, patch and seam keep their share of the crop. Tiles have no margin.
    """
    check_name(dataset)
    base = preset(dataset)
    values = {name: cited.value for name, cited in base.items()}
    unknown = given.keys() - values.keys()
    if unknown:
        raise InputError(f"unknown settings {', '.join(sorted(unknown))}; known are {', '.join(values)}")
    if "crop_size" in given and given["crop_size"] != values["crop_size"]:
        share = given["crop_size"] / values["crop_size"]
        # F halves patches up to three times; half of a band lies on each side of its seam.
        for name, step in {"margin": 1, "resize": 1, "patch_size": 8, "seam": 2}.items():
            values[name] = round(values[name] * share / step) * step
    if given.get("transforms") == (TILES,):
        values["margin"] = 0
    return Settings(**{**values, **given})


def describe(dataset: str, settings: Settings) -> str:
    """A line per setting: its value, and whose it is if not the paper's."""
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
