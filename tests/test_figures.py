"""lci_tf.figures as a user runs it, and what its figures show."""

import json
import shutil

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from PIL import Image

from lci_tf.config import presets
from lci_tf.data import labelled
from lci_tf.evaluation.neighbours import knn_evaluation
from lci_tf.pretraining import training
from lci_tf.reporting import FIGURES, features, find_figure
from lci_tf.reporting.examples import examples
from lci_tf.reporting.materials import Materials
from lci_tf.runs import Run, checkpoints

TINY = {"crop_size": 32, "margin": 8, "resize": 40, "patch_size": 16, "width": 0.05, "batch_size": 16}


def write_images(folder, count=15):
    for kind in ("cups", "keys"):
        (folder / kind).mkdir(parents=True)
        for i in range(count):
            pixels = np.random.default_rng([i, len(folder.name), kind == "cups"]).integers(0, 256, [6, 6, 3], np.uint8)
            Image.fromarray(pixels).resize((48, 40)).save(folder / kind / f"{i}.png")


def write_run(path, images, steps=(20, 40), checkpoint=True, **changes):
    settings = presets.resolve("stl10", {**TINY, **changes})
    run = Run(path)
    run.begin({**vars(settings), "dataset": "folder", "data_dir": [str(images)]})
    for step in steps:
        run.log(step, {"loss/classifier": 100 / step, "accuracy/rot90": 0.5})
    if checkpoint:
        learner = training.build(training.Plan(settings=settings, steps=1))
        run.describe({"labels": learner.labels, "parameters": {"C": 1} if learner.classifier else {}})
        checkpoints.Checkpoints(run, training.checkpointed(learner)).save(40)
    return run


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images") / "photos"
    write_images(folder)
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory, images):
    return write_run(tmp_path_factory.mktemp("runs") / "one", images)


@pytest.fixture(scope="module")
def materials(run, tmp_path_factory):
    return Materials(run_dir=str(run.path), out_dir=str(tmp_path_factory.mktemp("out")))


def tiles(figure):
    return [np.asarray(image.get_array()) for image in figure.axes[0].images]


@pytest.fixture
def figures(run_command):
    def draw(*arguments):
        ((code, output, errors),) = run_command("figures", arguments)
        lines = [line.split(maxsplit=1) for line in output.splitlines()]
        return (code, output, errors), {name: rest.strip() for name, rest in lines}

    return draw


@pytest.mark.slow
def test_a_run_is_all_it_takes_for_every_figure(run, tmp_path, figures):
    (code, output, errors), said = figures(
        f"--run_dir={run.path}", f"--out_dir={tmp_path}", "--format=pdf", "--layers=conv2,conv5"
    )
    assert code == 0, output + errors
    made = ["curves", "transformations", "lci", "patches", "filters", "mean_image", "neighbours_conv2",
            "neighbours_conv5", "knn", "map_conv2", "map_conv5"]  # fmt: skip
    assert said == {
        **{name: str(tmp_path / f"{name}.pdf") for name in made},
        "tiles": f"not made: --run_dir={run.path}: inpaints no seams; give a run with --transforms=tiles",
        "projector": f"tensorboard --logdir={tmp_path / 'projector'}",
    }
    for name in made:
        assert (tmp_path / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "projector" / "projector_config.pbtxt").is_file()


def test_what_is_missing_is_said_in_a_line(images, tmp_path, figures):
    moved = tmp_path / "moved"
    shutil.copytree(images, moved)
    run = write_run(tmp_path / "run", moved, transforms=("rot",))
    shutil.rmtree(moved)
    (code, _, errors), said = figures(f"--run_dir={run.path}")
    assert code == 0 and errors == ""
    assert list(said) == list(FIGURES)
    gone = f"not made: --data_dir={moved}: no such folder"
    without_f = f"not made: --run_dir={run.path}: inpaints no patches, since lci is not among its --transforms"
    assert said["curves"] == str(run.path / "figures" / "curves.png")
    assert (run.path / "figures" / "filters.png").read_bytes().startswith(b"\x89PNG")
    without_seams = f"not made: --run_dir={run.path}: inpaints no seams; give a run with --transforms=tiles"
    expected = {"lci": without_f, "patches": without_f, "tiles": without_seams}
    for name in FIGURES:
        if name not in ("curves", "filters"):
            assert said[name] == expected.get(name, gone)
    noted = json.loads((run.path / "figures" / "figures.json").read_text())
    assert list(noted) == ["curves", "filters"] and noted["curves"]["network"] is None
    assert len(noted["filters"]["network"]["digest"]) == 16


def test_figures_are_of_these_images_and_weights(run, images, tmp_path):
    copied = tmp_path / "copied"
    shutil.copytree(images, copied)
    here, there = (Materials(run_dir=str(run.path), images=("folder", None, [str(p)])) for p in (images, copied))
    for name in ("lci", "mean_image", "map"):
        assert here.question(find_figure(name)) == there.question(find_figure(name))
    next(path for path in copied.rglob("*") if path.is_file()).unlink()
    fewer = Materials(run_dir=str(run.path), images=("folder", None, [str(copied)]))
    on_map = find_figure("map")
    assert fewer.question(on_map)["data"]["contents"] != here.question(on_map)["data"]["contents"]


def test_figures_of_other_images_do_not_replace_each_other(run, images, tmp_path):
    def folder(*places):
        return Materials(run_dir=str(run.path), images=places and ("folder", None, places)).folder

    copied, fewer = tmp_path / "copied", tmp_path / "fewer"
    for place in (copied, fewer):
        shutil.copytree(images, place)
    (fewer / "cups" / "0.png").unlink()
    of_run = run.path / "figures"
    others = {folder(images), folder(copied), folder(fewer)}
    assert folder() == of_run and {other.parent for other in others} == {of_run}
    assert folder(images) == folder(copied) != folder(fewer)
    assert Materials(run_dir=str(run.path), images=("folder", None, [images]), out_dir="here").folder.name == "here"


def test_a_figure_of_other_images_is_not_replaced(run, images, tmp_path, figures):
    fewer = tmp_path / "fewer"
    shutil.copytree(images, fewer)
    (fewer / "cups" / "0.png").unlink()
    names = ["mean_image", "map", "projector"]
    asked = [
        f"--run_dir={run.path}",
        f"--figures={','.join(names)}",
        "--dataset=folder",
        f"--out_dir={tmp_path / 'out'}",
    ]
    assert figures(*asked, f"--data_dir={images}")[0][0] == 0
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    before = [path.read_bytes() for path in files]
    (code, _, _), said = figures(*asked, f"--data_dir={fewer}")
    refused = f"not made: --out_dir={tmp_path / 'out'}: has this figure of other images; choose another folder"
    assert code == 1 and said == dict.fromkeys(names, refused)
    assert [path.read_bytes() for path in files] == before
    assert figures(*asked, f"--data_dir={images}")[0][0] == 0


def test_curves_of_several_runs(run, images, tmp_path, refusal):
    other = write_run(tmp_path / "one", images, steps=(10,), checkpoint=False)
    both = Materials(run_dir=str(run.path), compare_run_dir=[str(other.path)])
    figure = find_figure("curves").draw(both)["curves"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [str(run.path), str(other.path)]
    first, second = figure.axes[0].lines
    np.testing.assert_allclose(first.get_xydata(), [[20, 5.0], [40, 2.5]])
    np.testing.assert_allclose(second.get_xydata(), [[10, 10.0]])
    nothing = Materials(run_dir=str(run.path), compare_run_dir=[str(tmp_path / "none")])
    assert refusal(find_figure("curves").draw, nothing) == f"{tmp_path / 'none'}: no such run (there is no run.flags)"


def test_transformations_are_of_the_original_below(materials):
    figure = find_figure("transformations").draw(materials)["transformations"]
    labels = [text.get_text() for text in figure.axes[0].texts][:6]
    assert labels == ["identity", "rot90", "rot180", "rot270", "warp", "lci"]
    shown = tiles(figure)
    details, transformed, originals = shown[:6], shown[6:12], shown[12:]
    np.testing.assert_array_equal(transformed[0], originals[0])
    for column, turns in ((1, 1), (2, 2), (3, 3)):
        assert any(np.array_equal(transformed[column], np.rot90(originals[column], k)) for k in (turns, -turns))
    assert details[0].shape == (13, 13, 3)
    # The detail of an inpainted image lies within the patch: nothing of it is as it was.
    top, left = materials.once(examples).patches.places[11] - 4
    inside = np.zeros([32, 32], bool)
    inside[max(top, 0) : top + 16, max(left, 0) : left + 16] = True
    changed = (transformed[5] != originals[5]).any(axis=-1)
    assert changed[inside].mean() > 0.9 and not changed[~inside].any()
    assert any(
        np.array_equal(details[5], transformed[5][row : row + 13, column : column + 13]) and inside[row + 6, column + 6]
        for row in range(20) for column in range(20)
    )  # fmt: skip


def test_permuted_images_are_below_the_natural_ones(images, tmp_path, refusal):
    run = write_run(tmp_path / "run", images, transforms=("tiles",), margin=0, tiles=2, seam=4)
    seams = Materials(run_dir=str(run.path))
    shown = np.array(tiles(find_figure("tiles").draw(seams)["tiles"]))
    assert shown.shape == (12, 32, 32, 3)
    inner = [(slice(top + 2, top + 14), slice(left + 2, left + 14)) for top in (0, 16) for left in (0, 16)]
    for natural, permuted in zip(shown[:6], shown[6:], strict=True):  # tiles are the same but for the bands
        assert {natural[tile].tobytes() for tile in inner} == {permuted[tile].tobytes() for tile in inner}
    assert any((natural != permuted)[2:14, 2:14].any() for natural, permuted in zip(shown[:6], shown[6:], strict=True))
    assert refusal(find_figure("transformations").draw, seams).endswith("has no C, since it trained F and D alone")
    assert refusal(find_figure("lci").draw, seams).endswith(
        "inpaints no patches, since lci is not among its --transforms"
    )


def test_the_mean_is_that_of_the_run_s_images(materials, images):
    stored = [np.asarray(Image.open(path), float)[:, 4:44] for path in images.rglob("*.png")]  # the middle square
    shown = tiles(find_figure("mean_image").draw(materials)["mean_image"])[0]
    assert shown.shape == (32, 32, 3)
    mean = np.mean(stored, axis=0)
    np.testing.assert_allclose(shown.mean(axis=(0, 1)), mean.mean(axis=(0, 1)), atol=2)


def test_neighbours_and_accuracies_are_those_of_knn(materials):
    found = find_figure("knn").draw(materials)["knn"].axes[0].lines[0].get_xydata()
    source = labelled.open_one("folder", [materials.run.data()[2][0]])
    network, protocol = materials.once(features.network), features.protocol(materials, "five")
    expected, _ = knn_evaluation.evaluate(network, source, None, protocol, [1, 5, 10, 20])
    np.testing.assert_allclose(found, [(k, 100 * share) for k, share in expected["conv5"].items()])
    figure = find_figure("neighbours").draw(materials)["neighbours"]
    assert len(tiles(figure)) == 8 * 9 and len(figure.axes[0].patches) == 8 * 8 + 2  # and the legend's


def test_a_map_has_a_dot_for_each_image_in_the_colour_of_its_class(materials):
    figure = find_figure("map").draw(materials)["map"]
    (dots,) = (found for found in figure.axes[0].collections if isinstance(found, PathCollection))
    assert len(dots.get_offsets()) == 30
    colours = dots.get_facecolors()
    assert len(np.unique(colours[:15], axis=0)) == len(np.unique(colours[15:], axis=0)) == 1  # cups, then keys
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["cups", "keys"]
    assert materials.once(features.image_atlas).facts["class"] == ["cups"] * 15 + ["keys"] * 15


def test_other_images_than_the_run_s(run, tmp_path, refusal):
    write_images(tmp_path / "all" / "train", 4)
    write_images(tmp_path / "all" / "val", 5)
    found = Materials(run_dir=str(run.path), images=("folder", None, [str(tmp_path / "all")]), map_images=7)
    assert (found.source.count, found.test_source.count) == (8, 10)
    assert 6 <= len(found.once(features.image_atlas).thumbnails) <= 8
    shutil.rmtree(tmp_path / "all" / "val" / "keys")
    flat = Materials(run_dir=str(run.path), images=("folder", None, [str(tmp_path / "all" / "val" / "cups")]))
    assert "has no labels" in refusal(find_figure("knn").draw, flat)
    assert "has only 5 images that can be read" in refusal(find_figure("neighbours").draw, flat)


@pytest.mark.parametrize(
    "arguments, code, words",
    [
        ([], 2, "--run_dir: missing; give a run of lci_tf.train"),
        (["--run_dir=nowhere"], 2, "--run_dir=nowhere: no such run or checkpoint"),
        (["--run_dir=RUN", "--figures=lci,graph"], 2, "--figures=graph: unknown; expected some of curves, tiles"),
        (["--run_dir=RUN", "--data_dir=DIR"], 2, "--data_dir: needs --dataset too"),
        (["--run_dir=RUN", "--figures=filters"], 1, "not made: --run_dir=RUN: has no checkpoint yet"),
    ],
)
def test_mistakes_are_reported_in_one_line(arguments, code, words, images, tmp_path, figures):
    run = write_run(tmp_path / "run", images, checkpoint=False)
    (found, output, errors), _ = figures(*(argument.replace("RUN", str(run.path)) for argument in arguments))
    assert found == code
    said = errors if code == 2 else output
    assert said.count("\n") == 1 and words.replace("RUN", str(run.path)) in said
