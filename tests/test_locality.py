"""lci_tf.locality as a user runs it."""

import json
import pathlib

import pytest
from PIL import Image

from lci_tf.config import presets
from lci_tf.pretraining import training
from lci_tf.runs import Run, checkpoints
from lci_tf.transforms import Transformation

TINY = {"crop_size": 16, "margin": 4, "resize": 24, "patch_size": 8, "border": 2, "inpainter_halvings": 2,
        "width": 0.05, "batch_size": 16}  # fmt: skip
QUICK = ("--images=64", "--steps=2", "--windows=3,whole")
OF_SETTINGS = (*QUICK, "--crop_size=16", "--seeds=1")
OWN = f"tests.{pathlib.Path(__file__).stem}:Dark"


class Dark(Transformation):
    labels = ("dark",)

    def __call__(self, images, draws):
        return [images * 0.25 - 0.75]


def write_run(path, **changes):
    settings = presets.resolve("synthetic", {**TINY, **changes})
    run = Run(path)
    run.begin({**vars(settings), "dataset": "synthetic"})
    learner = training.build(training.Plan(settings=settings, steps=1))
    run.describe({"labels": learner.labels, "parameters": {"C": 1} if learner.classifier else {}})
    checkpoints.Checkpoints(run, training.checkpointed(learner)).save(40)
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("runs") / "one", transforms=("rot", "lci"))


def read(path):
    return json.loads(pathlib.Path(path).read_text())


def changed_at(folder):
    return {path.name: path.stat().st_mtime_ns for path in (folder / "cells").iterdir()}


def test_of_settings_and_again(run_command, tmp_path):
    flags = [*OF_SETTINGS, f"--transforms={OWN}", "--steps=20", f"--out_dir={tmp_path}"]
    ((code, said, error),) = run_command("locality", flags)
    assert code == 0, error
    assert "20 steps of 32 + 32 images" in said and "64 of synthetic train: a quarter for testing" in said
    found = read(tmp_path / "locality.json")
    of = found["transformations"][OWN]
    assert list(of["windows"]) == ["3", "whole"] and found["network"] is None
    assert of["windows"]["3"]["mean"] > 0.9  # darkness is seen in any window
    (row,) = [line.split() for line in said.splitlines() if line.startswith(f"  {OWN} ")]
    assert row[1::3] == [f"{100 * cell['mean']:.1f}" for cell in of["windows"].values()]
    assert of["verdict"] in said.splitlines()
    with Image.open(tmp_path / "locality.png") as plot:
        assert plot.size[0] > 500

    # Another transformation and another window: what is there is not measured again. With another budget it is.
    before = changed_at(tmp_path)
    more = [*flags, f"--transforms=warp,{OWN}", "--windows=3,5,whole"]
    other = [*flags, "--windows=3", "--steps=21"]
    first, second = run_command("locality", more, other)
    assert first[0] == second[0] == 0, first[2] + second[2]
    after, own = changed_at(tmp_path), "tests_test_locality_Dark"
    assert {name for name, when in before.items() if after[name] != when} == {
        f"{own}_3_seed0.json",
        f"{own}_3_seed0.png",
    }
    new = {name.removesuffix("_seed0.json") for name in set(after) - set(before) if name.endswith("json")}
    assert new == {"warp_3", "warp_5", "warp_whole", f"{own}_5"}
    with Image.open(tmp_path / "windows_warp.png") as picture, Image.open(tmp_path / "cells/warp_5_seed0.png") as strip:
        assert picture.size == (strip.width, 2 * strip.height)


def test_of_a_run(run, run_command, tmp_path):
    flags = [*QUICK, f"--run_dir={run.path}", "--seeds=1", "--seed=1"]
    first, again, other = run_command("locality", flags, [*flags, "--transforms=lci"], [*flags, "--transforms=warp"])
    assert first[0] == again[0] == other[0] == 0, first[2] + again[2] + other[2]
    assert "Whole images are classified by the C of the run" in first[1] and "the C of the run" not in other[1]
    of_lci = [line.split() for line in first[1].splitlines() if line.split()[0] in ("lci", "lci:")]
    assert len(of_lci) == 2
    for line in of_lci:  # results that were kept are shown in the same words
        assert line in [shown.split() for shown in again[1].splitlines()]
    (folder,) = (run.path / "locality").iterdir()
    assert f"Results    {folder / 'locality.json'}" in first[1] and "Inputs     images train " in first[1]
    cells = {path.stem: read(path) for path in (folder / "cells").glob("*.json")}
    of_run = {name for name, cell in cells.items() if cell["asked"]["network"]}
    assert of_run == {"rot_whole_seed1", "lci_whole_seed1", "lci_3_seed1"}  # on no other cell does a checkpoint bear
    assert cells["lci_3_seed1"]["asked"]["network"]["step"] == 40
    assert cells["lci_3_seed1"]["found"]["test_images"] == 32
    for name in ("rot", "warp", "lci"):
        assert (folder / f"windows_{name}.png").is_file()
    (others,) = run_command("locality", [*flags, "--transforms=rot", "--dataset=synthetic", "--split=test"])
    assert others[0] == 0, others[2]
    assert len(list((run.path / "locality").iterdir())) == 2  # nothing of other images is replaced


MISTAKES = {
    "--transforms=lci: needs a trained inpainter; give --run_dir": ["--transforms=rot,lci"],
    "--transforms=tiles: is for --task=tiles of lci_tf.probe": ["--transforms=tiles"],
    "--transforms=twist: unknown": ["--transforms=twist"],
    "--transforms=json:dumps: is not a subclass": ["--transforms=json:dumps"],
    "--windows=4: expected some of 3,5,9,17,33,whole": ["--windows=3,4"],
    "--windows=17: larger than the crop of 16 pixels": ["--crop_size=16", "--windows=3,17"],
    "--data_dir: needs --dataset too": ["--data_dir=/nowhere"],
    "--run_dir=nowhere: no such run or checkpoint": ["--run_dir=nowhere"],
    "--tilt: that of --run_dir is used": ["--run_dir=RUN", "--tilt=0"],
    "--dataset: missing, but --data_dir or --split is given": ["--run_dir=RUN", "--split=test"],
    "--images=4000: would take 164,795 MB of memory": ["--crop_size=1200"],
}


def test_mistakes_are_reported_in_one_line(run, run_command):
    given = [[flag.replace("RUN", str(run.path)) for flag in flags] for flags in MISTAKES.values()]
    for message, (code, said, error) in zip(MISTAKES, run_command("locality", *given), strict=True):
        assert (code, said) == (2, ""), message
        assert error.count("\n") == 1 and message in error


def test_a_run_without_an_inpainter_and_one_of_seams(run_command, tmp_path):
    without = write_run(tmp_path / "without", transforms=("rot",))
    seams = write_run(tmp_path / "seams", transforms=("tiles",), margin=0, tiles=2, seam=4)
    first, second = run_command(
        "locality", [f"--run_dir={without.path}", "--transforms=rot,lci"], [f"--run_dir={seams.path}"]
    )
    assert first[0] == second[0] == 2
    assert f"--transforms=lci: {without.path} has no inpainter, as it was trained with --transforms=rot" in first[2]
    assert "trained an inpainter of seams, so it has no transformations" in second[2]
