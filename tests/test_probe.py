"""The command, in a process of its own that is asked again and again: TensorFlow takes seconds to import."""

import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from lci_tf import models
from lci_tf.config import presets
from lci_tf.runs import Run, checkpoints

ROOT = pathlib.Path(__file__).parents[1]
# Takes the arguments of a command as JSON, line by line, and answers with its exit code and what it printed.
ASK = """
import contextlib, io, json, sys
from lci_tf import cli, probe
for line in sys.stdin:
    for name in cli.FLAGS:
        cli.FLAGS[name].unparse()
    sys.argv = ["probe.py", *json.loads(line)]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            cli.run(probe.main, probe.__doc__)
        except SystemExit as ended:
            code = ended.code
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """`python -m lci_tf.probe` with these arguments: exit code, stdout and stderr."""
    place = tmp_path_factory.mktemp("current folder")
    process = subprocess.Popen(
        [sys.executable, "-c", ASK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=place,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(place)},
    )  # fmt: skip

    def run(*arguments):
        print(json.dumps([str(argument) for argument in arguments]), file=process.stdin, flush=True)
        return json.loads(process.stdout.readline())

    yield run
    process.communicate()  # the end of its input is its end


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    """A run of a tiny C with one checkpoint."""
    run = Run(tmp_path_factory.mktemp("runs") / "one")
    settings = presets.resolve("stl10", {"crop_size": 32, "width": 0.05})
    run.begin({**vars(settings), "dataset": "stl10"})
    run.describe({"labels": ["identity", "rot90"], "parameters": {"C": 1}})
    classifier = models.classifier("alexnet_small", 2, 32, width=0.05)
    tf.keras.utils.set_random_seed(5)
    for variable in classifier.get_layer("features").trainable_variables:
        if "kernel" in variable.name:
            variable.assign(tf.random.normal(variable.shape, stddev=0.1))
    saver = checkpoints.Checkpoints(run, {"classifier": classifier})
    saver.restore_latest()
    saver.save(7)
    return run.path


@pytest.fixture(scope="module")
def shades(tmp_path_factory):
    """Dark and light images in class folders."""
    place, rng = tmp_path_factory.mktemp("shades"), np.random.default_rng(0)
    for split, count in (("train", 12), ("test", 6)):
        for name, level in (("dark", 60), ("light", 190)):
            (place / split / name).mkdir(parents=True)
            for i in range(count):
                pixels = rng.normal(level, 30, [40, 40, 3]).clip(0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(place / split / name / f"{i}.png")
    return place


def results_in(stdout):
    (path,) = [line.split(maxsplit=1)[1] for line in stdout.splitlines() if line.startswith("Results")]
    return pathlib.Path(path)


def one_line(answer):
    code, out, err = answer
    assert code == 2 and out == "" and err.count("\n") == 1, answer
    assert err.startswith("lci_tf.probe: ")
    return err.removeprefix("lci_tf.probe: ").strip()


def test_a_run_on_ones_own_images_from_first_to_last(ask, run_dir, shades):
    flags = [f"--run_dir={run_dir}", "--dataset=folder", f"--data_dir={shades}", "--batch_size=8", "--epochs=6"]
    code, out, err = ask(*flags)
    assert code == 0, err
    assert "Linear probe 'own'" in out and "all of it is ours" in out and "linear probe: 100%" in err
    path = results_in(out)
    assert path.parents[1] == run_dir / "probe" and path.parent.name.startswith("own_sgd_step-7_")
    results = json.loads(path.read_text())
    protocol = results["protocol"]
    assert (protocol["crop_size"], protocol["resize"], protocol["epochs"]) == (32, 48, 6)  # crops as in pre-training
    assert protocol["layers"] == ["conv1", "conv2", "conv3", "conv4", "conv5"]
    assert sorted(protocol["changed"]) == ["batch_size", "epochs"]
    network = results["network"]
    assert network["step"] == 7 and network["digest"] == checkpoints.digest(str(run_dir / "checkpoints" / "step-7"))
    train = results["data"]["train"]
    assert (train["split"], train["images"], results["seed"]) == ("train", 24, 0)
    assert f"Inputs     images train {train['contents'][:8]}/{train['labels'][:8]}, test " in out
    assert "tensorflow" in results["versions"]
    conv1 = results["layers"]["conv1"]["single_crop"]
    assert conv1["accuracy"] == 1.0 and conv1["test_images"] == 12 and conv1["per_class"] == {"dark": 1.0, "light": 1.0}
    assert {f"confusion_conv{i}.png" for i in range(1, 6)} <= {p.name for p in path.parent.iterdir()}
    assert list((path.parent / "tensorboard").iterdir())

    # Once more: the same, without training.
    written = path.stat().st_mtime_ns
    code, again, err = ask(*flags)
    assert code == 0 and "linear probe" not in err and path.stat().st_mtime_ns == written
    assert again.splitlines() == out.splitlines()[-len(again.splitlines()) :]

    # Ten crops: the same classifiers are tested again.
    code, out, err = ask(*flags, "--multi_crop")
    assert code == 0 and "linear probe" not in err and "  ten crops" in out and results_in(out) == path
    assert json.loads(path.read_text())["layers"]["conv1"]["ten_crops"]["accuracy"] == 1.0

    # Another question does not go to the same place.
    assert one_line(ask(*flags, "--seed=1", f"--out_dir={path.parent}")) == (
        f"--out_dir={path.parent}: holds a probe with another seed (0, not 1); choose another folder"
    )


def test_other_images_and_other_labels_are_another_question(ask, run_dir, shades, tmp_path):
    """As many, of the same names, with the same classes."""
    rng = np.random.default_rng(1)
    relabelled, others = tmp_path / "relabelled", tmp_path / "others"
    shutil.copytree(shades, relabelled)
    for pair in (("dark", "light"), ("light", "dark")):
        (relabelled / "test" / pair[0] / "0.png").rename(tmp_path / pair[1])
    for name in ("dark", "light"):
        (tmp_path / name).rename(relabelled / "test" / name / "0.png")
    shutil.copytree(shades, others)
    for path in others.rglob("*.png"):
        Image.fromarray(rng.integers(0, 256, [41, 40, 3], np.uint8)).save(path)
    moved = tmp_path / "moved"
    shutil.copytree(shades, moved)
    flags = [f"--run_dir={run_dir}", "--dataset=folder", "--solver=ridge", "--layers=conv1", "--batch_size=8"]
    answers = [ask(*flags, f"--data_dir={place}") for place in (shades, relabelled, others, moved)]
    assert [code for code, _, _ in answers] == [0] * 4, answers
    places = [results_in(out) for _, out, _ in answers]
    assert len(set(places)) == 3 and places[3] == places[0]
    assert "Linear probe" not in answers[3][1]  # it is known already, though the folder is another
    accuracy = [json.loads(path.read_text())["layers"]["conv1"]["single_crop"]["accuracy"] for path in places]
    assert accuracy[0] == 1 and accuracy[1] == pytest.approx(10 / 12) and accuracy[2] < 0.9


def test_a_random_network_in_closed_form_with_few_labels(ask, shades, tmp_path):
    flags = ["--random_init", "--width=0.05", "--dataset=folder", f"--data_dir={shades}", "--solver=ridge"]
    flags += ["--crop_size=32", "--batch_size=8", "--labels_per_class=5", "--layers=conv2,conv1"]
    code, _, err = ask(*flags, f"--out_dir={tmp_path / 'a'}")
    assert code == 0, err
    assert "features of train" in err and "testing" in err  # a bar for each part
    results = json.loads((tmp_path / "a" / "results.json").read_text())
    assert results["data"]["train"]["images"] == 10 and results["network"]["random"]
    assert list(results["layers"]) == ["conv2", "conv1"]
    assert results["layers"]["conv1"]["single_crop"]["accuracy"] > 0.8
    assert results["regularisers"][0].keys() == {"conv1", "conv2"}


@pytest.mark.slow
def test_the_folds_of_stl10(ask, run_dir, tmp_path):
    rng = np.random.default_rng(0)
    for name, count in (("train", 40), ("test", 20)):
        labels = np.arange(count) % 10
        pixels = rng.normal(25 * labels[:, None, None, None], 10, [count, 3, 96, 96])
        pixels.clip(0, 255).astype(np.uint8).tofile(tmp_path / f"{name}_X.bin")
        (labels + 1).astype(np.uint8).tofile(tmp_path / f"{name}_y.bin")
    folds = [rng.permutation(40)[:30] for _ in range(3)]
    (tmp_path / "fold_indices.txt").write_text("\n".join(" ".join(map(str, fold)) for fold in folds))
    flags = [f"--run_dir={run_dir}", "--dataset=stl10", f"--data_dir={tmp_path}", "--folds", "--layers=conv1"]
    for more in (["--solver=ridge"], ["--epochs=1", "--cache"]):
        code, out, err = ask(*flags, "--crop_size=32", *more)
        assert code == 0, err
        assert "mean and spread of 3 folds" in out and "Linear probe 'stl10'" in out
        path = results_in(out)
        summary = json.loads(path.read_text())["layers"]["conv1"]["single_crop"]
        assert len(summary["folds"]) == 3 and summary["spread"] == pytest.approx(np.std(summary["folds"], ddof=1))
    assert sorted(p.name for p in path.parent.glob("fold_*")) == ["fold_1", "fold_2", "fold_3"]


def test_attributes(ask, run_dir, tmp_path):
    rng, rows = np.random.default_rng(0), ["split,file,light,wide"]
    for split, count in (("train", 24), ("val", 12)):
        (tmp_path / split).mkdir()
        for i in range(count):
            light = i % 2
            pixels = rng.normal(60 + 130 * light, 20, [40, 40, 3]).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / split / f"{i}.png")
            rows.append(f"{split},{split}/{i}.png,{light},{i // 2 % 2}")
    (tmp_path / "attributes.csv").write_text("\n".join(rows) + "\n")
    flags = [f"--run_dir={run_dir}", "--dataset=celeb_a", f"--data_dir={tmp_path}", "--layers=conv1", "--grid=2"]
    code, out, err = ask(*flags, "--crop_size=32", "--batch_size=8", "--epochs=5")
    assert code == 0, err
    assert "Linear probe 'celeba'" in out and "Average precision in percent, on 12 test images" in out
    results = json.loads(results_in(out).read_text())
    summary = results["layers"]["conv1"]["single_crop"]
    assert summary["per_class"]["light"] == 1.0 and results["protocol"]["grid"] == 2
    assert summary["average_precision"] == pytest.approx(np.mean(list(summary["per_class"].values())))


def test_bad_input_is_reported_in_one_line(ask, run_dir, shades, tmp_path):
    images = ["--dataset=folder", f"--data_dir={shades}"]
    run = [f"--run_dir={run_dir}", *images]
    before = sorted(run_dir.rglob("*"))
    empty = Run(tmp_path / "empty")
    empty.begin({})
    assert one_line(ask(f"--run_dir={empty.path}", *images)) == f"--run_dir={empty.path}: has no checkpoint yet"
    flat = tmp_path / "flat"
    flat.mkdir()
    Image.new("RGB", (40, 40)).save(flat / "1.png")
    message = one_line(ask(f"--run_dir={run_dir}", "--dataset=folder", f"--data_dir={flat}"))
    assert message.startswith("--dataset=folder: has no labels; ")
    for split, name in (("train", "dog"), ("test", "horse")):
        for class_name in ("cat", name):
            (tmp_path / "unlike" / split / class_name).mkdir(parents=True)
            Image.new("RGB", (40, 40)).save(tmp_path / "unlike" / split / class_name / "1.png")
    message = one_line(ask(f"--run_dir={run_dir}", "--dataset=folder", f"--data_dir={tmp_path / 'unlike'}"))
    assert message == "--dataset=folder: train and test do not have the same classes, such as dog"
    assert one_line(ask(*run, "--layers=conv6")) == (
        "--layers=conv6: no such layer; there are conv1, conv2, conv3, conv4, conv5"
    )
    assert one_line(ask(*images)).startswith("--run_dir: missing; ")
    assert one_line(ask(*run, "--labels_per_class=13")).startswith("--labels_per_class=13: folder train has only 12")
    assert one_line(ask(*run, "--label_fraction=0.5", "--labels_per_class=3")) == (
        "--label_fraction and --labels_per_class: give one of them"
    )
    assert one_line(ask(*run, "--folds")).startswith("--folds: are defined for STL-10's official binaries")
    assert one_line(ask(*run, "--folds", "--label_fraction=0.5")).startswith(
        "--folds: these choose the training images"
    )
    assert one_line(ask(*run, "--solver=ridge", "--epochs=3")) == (
        "--epochs: only for --solver=sgd; ridge has a closed form"
    )
    assert one_line(ask(*run, "--batch_size=25")).startswith(
        "--batch_size=25: larger than the data set, as folder train has 24 images"
    )
    assert "--label_fraction=2" in one_line(ask(*run, "--label_fraction=2"))
    assert one_line(ask(*run, "--resize=20")) == "--resize=20: smaller than the crop of 32 pixels"
    assert sorted(run_dir.rglob("*")) == before  # no folder for results that there will not be
