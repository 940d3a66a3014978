"""The settings of a pre-training, each with the help of its flag, and the checks that they are consistent."""

import dataclasses
import math
from typing import Any

from lci_tf.config.names import BACKBONES, TILES, TRANSFORMS
from lci_tf.errors import InputError


def _setting(help: str, group: str, choices: tuple[str, ...] = ()):
    return dataclasses.field(metadata={"help": help, "group": group, "choices": choices})


_LCI = "Limited context inpainting"
_TILES = "Permuted tiles"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a pre-training. Each field is also a flag; a run directory keeps their values."""

    crop_size: int = _setting("side of the square crops that C sees, in pixels", "Images")
    margin: int = _setting(
        "pixels by which images exceed the crop while they are transformed; then the crop is cut at random", "Images"
    )
    resize: int = _setting("short side of images before cropping, in pixels; smaller images are not enlarged", "Images")
    backbone: str = _setting("architecture of C", "Networks", choices=tuple(BACKBONES))
    width: float = _setting("factor for the numbers of channels of C, F and D; below 1 for small machines", "Networks")
    sync_bn: bool = _setting("compute batch-norm statistics over all replicas together", "Networks")
    mixed_precision: str = _setting("number format in which the networks compute", "Networks",
                                    choices=("float32", "bfloat16", "float16"))  # fmt: skip
    batch_size: int = _setting("source images per step, over all replicas", "Training")
    epochs: int = _setting("passes over the data set", "Training")
    learning_rate: float = _setting("learning rate of C at the start", "Training")
    final_learning_rate: float = _setting("learning rate of C at the end of its cosine schedule", "Training")
    beta_1: float = _setting("β1 of the AdamW that trains C", "Training")
    beta_2: float = _setting("β2 of the AdamW that trains C", "Training")
    weight_decay: float = _setting(
        "share of each weight of C lost per step, at the start of the cosine schedule", "Training"
    )
    transforms: tuple[str, ...] = _setting(
        f"transformations that C learns to tell apart: some of {','.join(TRANSFORMS)}, and your own as module:Class; "
        f"{TILES} alone trains no C, but an inpainter for the seams between permuted tiles",
        "Transformations",
    )
    warp_grid: int = _setting("control points of the warp along each side of the image", "Transformations")
    warp_strength: float = _setting(
        "largest shift of a control point of the warp, as a share of the image's side", "Transformations"
    )
    random_warp_points: bool = _setting(
        "place the control points of the warp at random, not on a grid", "Transformations"
    )
    tilt: float = _setting(
        "largest random rotation of the images of all classes, in half turns; at 0, only the warp interpolates images, "
        "and its softness gives it away",
        "Transformations",
    )
    resample: str = _setting(
        "how images are tilted and resampled. once: every image is tilted, in the same single interpolation that warps "
        "it. authors: as in the authors' code, half of each class is tilted, warped images after the warp, and rotated "
        "images are made from the identity crops. each: like authors, but with crops of their own for rotated images",
        "Transformations",
        choices=("once", "authors", "each"),
    )
    patch_size: int = _setting("side of the patch that is inpainted, in pixels", _LCI)
    border: int = _setting("width of the border of the patch that F sees, in pixels", _LCI)
    noise_scale: float = _setting("standard deviation of the noise that replaces the centre of the patch", _LCI)
    border_weight: float = _setting("λ_border, weight of the loss that keeps the border of the patch", _LCI)
    autoencoding_weight: float = _setting("λ_AE, weight of the loss for autoencoding patches", _LCI)
    inpainter_learning_rate: float = _setting("learning rate of F", _LCI)
    discriminator_learning_rate: float = _setting("learning rate of D", _LCI)
    adversarial_beta_1: float = _setting("β1 of the Adam optimisers that train F and D", _LCI)
    inpainter_halvings: int = _setting(
        "how many times F halves the patch and doubles it again; 3 sees across a hole of 44 pixels, 4 across 88", _LCI
    )
    discriminator_halvings: int = _setting("how many times D halves the patch, 2 or 3", _LCI)
    discriminator_pooling: str = _setting("how D pools its last feature map", _LCI, choices=("average", "sum"))
    adversarial_cosine: bool = _setting("let the learning rates of F and D follow the cosine schedule of C", _LCI)
    adversarial_classifier: bool = _setting("train F against C too, not only against D", _LCI)
    patch_autoencoding: bool = _setting(
        "have F autoencode patches, which are pasted into half of the identity and rotated images", _LCI
    )
    tiles: int = _setting("number of tiles along each side of the image", _TILES)
    seam: int = _setting("width of the band that is inpainted along each seam, in pixels", _TILES)

    @property
    def trains_seams(self) -> bool:
        """Whether the training is that of an inpainter for the seams between permuted tiles, without C."""
        return self.transforms == (TILES,)

    @property
    def _inpainter_divisor(self) -> int:
        """The sides of F's input must be divisible by this, as F halves them `inpainter_halvings` times."""
        return 2**self.inpainter_halvings

    def check_images(self) -> None:
        """Raises `InputError` if the settings that concern single images are invalid or contradict each other."""
        _require(self.crop_size >= 8, f"--crop_size={self.crop_size}: must be at least 8")
        _require(
            self.resize >= self.crop_size, f"--resize={self.resize}: smaller than the crop of {self.crop_size} pixels"
        )
        _require(self.batch_size >= 1, f"--batch_size={self.batch_size}: must be at least 1")

    def check(self, replicas: int = 1) -> None:
        """Raises `InputError` if a setting is out of range, or if settings contradict each other."""
        self.check_images()
        self._check_numbers()
        self._check_transforms()
        self._check_sizes()
        self._check_batch(replicas)
        if self.trains_seams:
            self._check_tiles()

    def _check_numbers(self):
        for name, value in vars(self).items():
            _require(not isinstance(value, float) or math.isfinite(value), f"--{name}={value}: must be a finite number")
        for name in ("epochs", "patch_size", "border"):
            _require(getattr(self, name) >= 1, f"--{name}={getattr(self, name)}: must be at least 1")
        _require(self.warp_grid >= 2, f"--warp_grid={self.warp_grid}: must be at least 2, for the corners")
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

    def _check_transforms(self):
        _require(self.transforms, "--transforms: is empty; C needs at least one transformation to tell from identity")
        for name in self.transforms:
            _require(
                name in (*TRANSFORMS, TILES) or ":" in name,
                f"--transforms={name}: unknown; expected some of {','.join(TRANSFORMS)}, or module:Class of your own; "
                f"or {TILES} alone",
            )
        _require(
            TILES not in self.transforms or self.trains_seams,
            f"--transforms={','.join(self.transforms)}: {TILES} is not a class for C, but trains an inpainter "
            "of seams; give it alone",
        )
        _require(len(set(self.transforms)) == len(self.transforms), "--transforms: lists a transformation twice")

    def _check_sizes(self):
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
        _require(self.inpainter_halvings >= 2, f"--inpainter_halvings={self.inpainter_halvings}: must be at least 2")
        _require(
            self.discriminator_halvings in (2, 3),
            f"--discriminator_halvings={self.discriminator_halvings}: expected 2 or 3",
        )
        divisor = self._inpainter_divisor
        _require(
            self.patch_size % divisor == 0,
            f"--patch_size={self.patch_size}: must be divisible by {divisor}, because F halves it "
            f"{self.inpainter_halvings} times (--inpainter_halvings)",
        )
        _require(self.width > 0, f"--width={self.width:g}: must be above 0")

    def _check_batch(self, replicas):
        _require(
            self.batch_size % replicas == 0,
            f"--batch_size={self.batch_size}: must be divisible by the {replicas} replicas",
        )
        _require(
            not (self.trains_seams or "lci" in self.transforms) or self.batch_size % (2 * replicas) == 0,
            f"--batch_size={self.batch_size}: must be divisible by two (D sees pairs)"
            + (f" on each of {replicas} replicas, so by {2 * replicas}" if replicas > 1 else ""),
        )

    def _check_tiles(self):
        divisor = self._inpainter_divisor
        _require(self.tiles >= 2, f"--tiles={self.tiles}: must be at least 2, for there to be a seam")
        _require(
            self.crop_size % (divisor * self.tiles) == 0,
            f"--crop_size={self.crop_size}: must be divisible by {divisor * self.tiles}, for {self.tiles} whole tiles "
            f"along each side, each divisible by {divisor}, because F halves it {self.inpainter_halvings} times",
        )
        side = self.crop_size // self.tiles
        _require(
            0 < self.seam < side and self.seam % 2 == 0,
            f"--seam={self.seam}: must be even, above 0 and below the side of a tile, {side} pixels",
        )
        _require(self.margin == 0, f"--margin={self.margin}: tiles are moved, not resampled, so there is none; give 0")


def _require(holds, message):
    if not holds:
        raise InputError(message)


def upgraded(given: dict[str, Any]) -> dict[str, Any]:
    """Translates settings that an older version wrote, so that old runs keep their meaning.

    Up to version 0.1, F and D shared one depth, `deep_inpainter`. Settings that came later get the value that
    describes what version 0.1 did.
    """
    if "deep_inpainter" not in given:
        return given
    rest = {name: value for name, value in given.items() if name != "deep_inpainter"}
    depth = 3 if given["deep_inpainter"] else 2
    return {"inpainter_halvings": depth, "discriminator_halvings": depth, "resample": "each", **rest}
