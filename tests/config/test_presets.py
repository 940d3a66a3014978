"""The presets against the paper's values, and settings that contradict each other against the messages."""

import dataclasses

import pytest

from lci_tf.config import names, presets, probe_protocols
from lci_tf.config.settings import Settings
from lci_tf.errors import InputError

# Written off the paper, not off the code.
PAPER = {
    "stl10": {"crop_size": 64, "patch_size": 48, "batch_size": 64, "epochs": 200, "discriminator_halvings": 2},
    "celeb_a": {"crop_size": 96, "border": 2, "epochs": 100, "discriminator_halvings": 2},
    "imagenet2012": {"crop_size": 128, "border": 4, "batch_size": 96, "epochs": 200, "discriminator_halvings": 3},
}
EVERYWHERE = {
    "learning_rate": 3e-4,
    "final_learning_rate": 3e-7,
    "beta_1": 0.5,
    "beta_2": 0.99,
    "weight_decay": 1e-4,
    "inpainter_learning_rate": 2e-4,
    "adversarial_beta_1": 0.5,
    "border_weight": 50,
    "autoencoding_weight": 50,
    "warp_strength": 0.1,
    "transforms": ("rot", "warp", "lci"),
    "tiles": 4,
}


@pytest.mark.parametrize("dataset", PAPER)
def test_presets_hold_the_papers_figures_and_say_so(dataset):
    settings = presets.resolve(dataset, {})
    for name, value in {**EVERYWHERE, **PAPER[dataset]}.items():
        assert getattr(settings, name) == value, name
        assert presets.preset(dataset)[name].whose == "paper", name


@pytest.mark.parametrize("dataset", [*PAPER, "folder", "synthetic", "tfds:anything"])
def test_presets_are_complete_and_consistent(dataset):
    assert presets.preset(dataset).keys() == {f.name for f in dataclasses.fields(Settings)}
    presets.resolve(dataset, {}).check()


def test_what_the_paper_does_not_train_on_is_not_marked_as_the_papers():
    for name in ("crop_size", "batch_size", "epochs", "patch_size", "resize"):
        assert presets.preset("folder")[name].whose == "ours"


def test_margin_resize_and_patch_scale_with_the_crop():
    settings = presets.resolve("stl10", {"crop_size": 96})
    assert (settings.margin, settings.resize, settings.patch_size) == (24, 144, 80)
    settings = presets.resolve("stl10", {"crop_size": 96, "patch_size": 48})
    assert (settings.margin, settings.patch_size) == (24, 48)


@pytest.mark.parametrize("dataset, seam", [("stl10", 4), ("celeb_a", 6), ("imagenet2012", 8), ("folder", 4)])
def test_a_seam_is_a_quarter_of_a_tile_and_tiles_have_no_margin(dataset, seam):
    settings = presets.resolve(dataset, {"transforms": ("tiles",)})
    settings.check()
    assert settings.trains_seams and (settings.margin, settings.seam) == (0, seam)
    assert settings.seam == settings.crop_size / settings.tiles / 4
    assert presets.resolve(dataset, {"crop_size": 256}).seam == 16


def test_the_description_marks_what_is_not_the_papers():
    text = presets.describe("stl10", presets.resolve("stl10", {"patch_size": 56}))
    lines = {line.split()[0]: line for line in text.splitlines() if line.startswith("    ")}
    assert lines["patch_size"].endswith("! not the paper's, which is 48 (Table 1, baseline)")
    assert "* the authors' code" in lines["margin"]
    assert "* ours" in lines["warp_grid"]
    assert "* the authors' code: the paper has 2" in lines["border"]
    assert lines["batch_size"].split() == ["batch_size", "64"]


@pytest.mark.parametrize("deep, halvings", [("false", 2), ("true", 3)])
def test_settings_of_version_0_1_keep_their_meaning(deep, halvings):
    settings = presets.resolve("stl10", {"deep_inpainter": deep == "true", "border": 2})
    assert (settings.inpainter_halvings, settings.discriminator_halvings) == (halvings, halvings)
    assert (settings.resample, settings.border) == ("each", 2)


TILES = {"transforms": ("tiles",)}
CONTRADICTIONS = {
    "--patch_size=80: larger than the crop of --crop_size=64": {"patch_size": 80},
    "--border=24: leaves no centre to inpaint in a patch of --patch_size=48": {"border": 24},
    "--border=0: must be at least 1": {"border": 0},
    "--batch_size=63: must be divisible by two (D sees pairs)": {"batch_size": 63},
    "--resize=70: smaller than crop and margin together, 64 + 16 pixels": {"resize": 70},
    "--resize=60: smaller than the crop of 64 pixels": {"resize": 60},
    "--crop_size=4: must be at least 8": {"crop_size": 4},
    "--warp_grid=1: must be at least 2": {"warp_grid": 1},
    "--beta_1=1.0: must be at least 0 and below 1": {"beta_1": 1.0},
    "--border_weight=-5.0: must not be negative": {"border_weight": -5.0},
    "--final_learning_rate=1: above --learning_rate=0.0003": {"final_learning_rate": 1.0},
    "--patch_size=44: must be divisible by 8, because F halves it 3 times (--inpainter_halvings)": {"patch_size": 44},
    "--inpainter_halvings=1: must be at least 2": {"inpainter_halvings": 1},
    "--discriminator_halvings=4: expected 2 or 3": {"discriminator_halvings": 4},
    "--transforms=turn: unknown; expected some of rot,warp,lci": {"transforms": ("rot", "turn")},
    "--transforms: lists a transformation twice": {"transforms": ("rot", "rot")},
    "--transforms: is empty": {"transforms": ()},
    "--learning_rate=0.0: must be above 0": {"learning_rate": 0.0},
    "--epochs=0: must be at least 1": {"epochs": 0},
    "--tilt=-1.0: must not be negative": {"tilt": -1.0},
    "--tilt=0.6: is in half turns, and must be at most 0.5": {"tilt": 0.6},
    "--width=0: must be above 0": {"width": 0.0},
    "--width=inf: must be a finite number": {"width": float("inf")},
    "--noise_scale=nan: must be a finite number": {"noise_scale": float("nan")},
    "--patch_size=0: must be at least 1": {"patch_size": 0},
    "--patch_size=40: must be divisible by 16": {"patch_size": 40, "inpainter_halvings": 4},
    "--transforms=rot,tiles: tiles is not a class for C, but trains an inpainter of seams; give it alone": {
        "transforms": ("rot", "tiles")
    },
    "--tiles=1: must be at least 2": {**TILES, "tiles": 1},
    "--crop_size=72: must be divisible by 16, for 4 whole tiles along each side, each divisible by 4": {
        **TILES,
        "crop_size": 72,
    },
    "--crop_size=80: must be divisible by 32, for 4 whole": {**TILES, "crop_size": 80, "inpainter_halvings": 3},
    "--seam=3: must be even, above 0 and below the side of a tile, 16 pixels": {**TILES, "seam": 3},
    "--seam=16: must be even": {**TILES, "seam": 16},
    "--margin=16: tiles are moved, not resampled": {**TILES, "margin": 16},
    "--batch_size=31: must be divisible by two (D sees pairs)": {**TILES, "batch_size": 31},
}


@pytest.mark.parametrize("message", CONTRADICTIONS)
def test_contradictions_are_reported_in_one_line(message):
    with pytest.raises(InputError) as raised:
        presets.resolve("stl10", CONTRADICTIONS[message]).check()
    assert message in str(raised.value) and "\n" not in str(raised.value)


def test_a_batch_must_be_shared_by_the_replicas():
    settings = presets.resolve("stl10", {"batch_size": 20})
    settings.check(replicas=5)
    with pytest.raises(InputError, match="on each of 4 replicas, so by 8"):
        settings.check(replicas=4)
    without_pairs = presets.resolve("stl10", {"batch_size": 20, "transforms": ("rot",)})
    without_pairs.check(replicas=4)
    with pytest.raises(InputError, match="--batch_size=20: must be divisible by the 3 replicas"):
        without_pairs.check(replicas=3)


def test_an_unknown_data_set_is_named():
    with pytest.raises(InputError, match="--dataset=imagenet: unknown; expected one of synthetic, folder, "):
        presets.resolve("imagenet", {})


def test_a_data_set_of_the_paper_has_its_preset_by_either_name():
    assert presets.resolve("tfds:imagenet2012", {}) == presets.resolve("imagenet2012", {})


def test_every_data_set_can_be_opened_by_its_name():
    for path in names.DATASETS.values():
        assert callable(names.load(path))


def test_an_unknown_setting_is_named():
    with pytest.raises(InputError, match="unknown settings path_size"):
        presets.resolve("stl10", {"path_size": 3})


def test_probe_protocols_hold_the_papers_figures():
    protocols = probe_protocols.PROTOCOLS
    assert {n: (p.crop_size, p.epochs) for n, p in protocols.items() if n in ("stl10", "stl10_ablation", "celeba")} == {
        "stl10": (64, 700),
        "stl10_ablation": (96, 500),
        "celeba": (96, 100),
    }
    assert protocols["stl10_ablation"].layers == ("conv5",)
    assert protocols["celeba"].metric == "average precision"
    for name in ("imagenet", "places"):
        protocol = protocols[name]
        assert protocol.pooled and protocol.epochs == 65
        steps = [(round(share * 65), rate) for share, rate in protocol.learning_rates]
        assert steps == [(0, 0.1), (5, 0.01), (25, 0.002), (45, 0.0004)]
