"""The package as users first see it: fast, quiet, and clear about mistakes."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from lci_tf.__main__ import COMMANDS

ROOT = pathlib.Path(__file__).parents[1]


def run(*arguments, **environment):
    # Without what this very process set: a user's environment has none of it.
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("TF_")}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=ROOT, env={**inherited, **environment}
    )


def test_importing_the_package_does_not_import_tensorflow():
    result = run("-c", "import lci_tf, sys; sys.exit('tensorflow' in sys.modules)")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("module", ["lci_tf.data.pipeline", "lci_tf.transforms.spline"])
def test_importing_is_silent(module):
    """TensorFlow's start-up chatter and the end-of-life notice of tensorflow-addons included."""
    result = run("-c", f"import {module}")
    assert (result.stdout, result.stderr, result.returncode) == ("", "", 0)


def test_commands_do_not_say_that_there_is_no_gpu():
    """At the first operation, where newer versions of TensorFlow count it among the errors."""
    result = run("-c", "import lci_tf.cli, tensorflow as tf; tf.constant(1) + 1")
    assert (result.stdout, result.stderr, result.returncode) == ("", "", 0)


def test_a_failing_import_of_tensorflow_is_not_silent(tmp_path):
    (tmp_path / "tensorflow.py").write_text("import os; os.write(2, b'libcuda is broken'); raise ImportError('no')")
    result = run("-c", "import lci_tf.imaging.images", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert "libcuda is broken" in result.stderr and "ImportError: no" in result.stderr


def test_an_import_of_tensorflow_that_ends_the_process_is_not_silent(tmp_path):
    """As where it was built for another processor: native code says why, and aborts."""
    (tmp_path / "tensorflow.py").write_text("import os; os.write(2, b'was built for AVX, '); os.abort()")
    result = run("-c", "import lci_tf.imaging.images", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert result.returncode != 0 and "was built for AVX" in result.stderr


@pytest.mark.parametrize("imported, is_shown", [("lci_tf", True), ("lci_tf, lci_tf.cli", False)])
def test_errors_of_tensorflow_are_shown_but_not_by_commands(imported, is_shown):
    """Its level 2 has errors, 3 has none. Commands name damaged images themselves."""
    code = f"import {imported}, os; print(os.environ['TF_CPP_MIN_LOG_LEVEL'])"
    assert run("-c", code).stdout == ("2\n" if is_shown else "3\n")
    assert run("-c", code, TF_CPP_MIN_LOG_LEVEL="0").stdout == "0\n"


def test_keras_is_keras_2():
    result = run("-c", "import lci_tf, tensorflow as tf; tf.keras.optimizers.legacy.Adam()")
    assert result.returncode == 0, result.stderr  # Keras 3 has no legacy optimisers


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_quick_and_about_this_command_only(command):
    result = run("-X", "importtime", "-m", f"lci_tf.{command}", "--help")
    said = result.stderr.splitlines()
    assert result.returncode == 0 and all(line.startswith("import time:") for line in said)
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in said}
    assert "absl" in imported and not imported & {"tensorflow", "numpy", "PIL", "matplotlib", "sklearn"}
    assert ("--run_dir" if command == "export" else "\nData\n  --dataset") in result.stdout
    assert command == "export" or "  --download" in result.stdout
    for internal in ("--logtostderr", "--pdb", "--stderrthreshold", "absl"):
        assert internal not in result.stdout


def test_the_package_lists_its_commands():
    lines = run("-m", "lci_tf").stdout.splitlines()
    for command in COMMANDS:
        assert any(f"python -m lci_tf.{command} " in line and line.endswith(".") for line in lines), command


MISTAKES = {
    "Unknown command line flag 'datset'. Did you mean: dataset ?": ["--datset=stl10"],
    "unexpected argument 'stl10'; flags are written --name=value": ["stl10"],
    "flag --border=wide": ["--border=wide"],
    "--patch_size=80: larger than the crop": ["--dataset=stl10", "--patch_size=80"],
    "--transforms=turn: unknown": ["--transforms=rot,turn"],
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_reported_in_one_line(message):
    result = run("-m", "lci_tf.settings", *MISTAKES[message])
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.startswith("lci_tf.settings: ") and result.stderr.count("\n") == 1
    assert message in result.stderr


def test_the_traceback_of_a_mistake_is_shown_on_request():
    result = run("-m", "lci_tf.settings", "--transforms=rot,turn", LCI_TF_DEBUG="1")
    assert result.returncode == 2 and "Traceback (most recent call last)" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("lci_tf.settings: --transforms=turn: unknown")


def test_every_flagfile_is_read_and_says_how():
    """By the training's flags, without TensorFlow; its name stands in it, with the command, below what it is for."""
    flagfiles = sorted((ROOT / "flags").rglob("*.flags"))
    assert len(flagfiles) > 5
    for flagfile in flagfiles:
        relative = flagfile.relative_to(ROOT)
        first, second = flagfile.read_text().splitlines()[:2]
        assert first.startswith("# ") and second == f"#   python -m lci_tf.train --flagfile={relative}"
        code = "from lci_tf import cli, train; cli.FLAGS(['', '--flagfile=%s']); cli.settings_from_flags().check()"
        result = run("-c", code % relative)
        assert result.returncode == 0, result.stderr


# Written off the paper, and off the authors' release.
FOLLOWED = {
    "paper_to_the_letter": {
        "border": 2, "noise_scale": 1, "inpainter_halvings": 2, "discriminator_halvings": 2,
        "discriminator_learning_rate": 2e-4, "discriminator_pooling": "average", "adversarial_cosine": False,
        "margin": 0, "tilt": 0, "warp_strength": 0.1, "random_warp_points": False,
    },
    "authors_code": {
        "border": 3, "noise_scale": 0.1, "inpainter_halvings": 3, "discriminator_halvings": 2,
        "discriminator_learning_rate": 8e-4, "discriminator_pooling": "sum", "adversarial_cosine": False,
        "margin": 16, "tilt": 0.07, "resample": "authors", "warp_strength": 1 / 16, "random_warp_points": True,
        "warp_grid": 4,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", FOLLOWED)
def test_flagfiles_that_follow_the_paper_or_the_authors_have_their_values(name):
    code = (
        f"from lci_tf import cli, train; cli.FLAGS(['', '--flagfile=flags/{name}.flags']); "
        "import dataclasses, json; print(json.dumps(dataclasses.asdict(cli.settings_from_flags())))"
    )
    settings = json.loads(run("-c", code).stdout)
    both = {"inpainter_learning_rate": 2e-4, "patch_size": 48, "adversarial_classifier": True,
            "patch_autoencoding": True}  # fmt: skip
    assert {**settings, **both, **FOLLOWED[name]} == settings


def test_flags_override_flagfiles_and_flagfiles_presets():
    result = run("-m", "lci_tf.settings", "--flagfile=flags/ablation/patch32.flags")
    assert "patch_size                   32             ! not the paper's, which is 48" in result.stdout
    result = run("-m", "lci_tf.settings", "--flagfile=flags/ablation/patch32.flags", "--patch_size=40")
    assert "patch_size                   40 " in result.stdout
