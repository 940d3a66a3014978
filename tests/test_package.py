"""The package as a user meets it: quick, quiet, and plain about mistakes."""

import os
import pathlib
import subprocess
import sys
import time

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
    result = run("-c", f"import {module}; import tensorflow as tf; tf.constant(1) + 1")
    assert (result.stdout, result.stderr, result.returncode) == ("", "", 0)


def test_a_failing_import_of_tensorflow_is_not_silent(tmp_path):
    (tmp_path / "tensorflow.py").write_text("import os; os.write(2, b'libcuda is broken'); raise ImportError('no')")
    result = run("-c", "import lci_tf.imaging.images", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert "libcuda is broken" in result.stderr and "ImportError: no" in result.stderr


def test_keras_is_keras_2():
    result = run("-c", "import lci_tf, tensorflow as tf; tf.keras.optimizers.legacy.Adam()")
    assert result.returncode == 0, result.stderr  # Keras 3 has no legacy optimisers


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_quick_and_about_this_command_only(command):
    start = time.monotonic()
    result = run("-m", f"lci_tf.{command}", "--help")
    assert time.monotonic() - start < 2
    assert result.returncode == 0 and result.stderr == ""
    assert ("--run_dir" if command == "export" else "\nData\n  --dataset") in result.stdout
    for internal in ("--logtostderr", "--pdb", "--stderrthreshold", "absl"):
        assert internal not in result.stdout


def test_the_package_lists_its_commands():
    lines = run("-m", "lci_tf").stdout.splitlines()
    for command in COMMANDS:
        assert any(f"python -m lci_tf.{command} " in line and line.endswith(".") for line in lines), command


MISTAKES = {
    "Unknown command line flag 'datset'. Did you mean: dataset ?": ["--datset=stl10"],
    "what is 'stl10'? Flags are written --name=value": ["stl10"],
    "flag --border=wide": ["--border=wide"],
    "--patch_size=80: larger than the crop": ["--dataset=stl10", "--patch_size=80"],
    "--transforms=turn: unknown": ["--transforms=rot,turn"],
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_told_in_one_line(message):
    result = run("-m", "lci_tf.settings", *MISTAKES[message])
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.startswith("lci_tf.settings: ") and result.stderr.count("\n") == 1
    assert message in result.stderr


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


def test_flags_override_flagfiles_and_flagfiles_presets():
    result = run("-m", "lci_tf.settings", "--flagfile=flags/ablation/patch32.flags")
    assert "patch_size                   32             ! not the paper's, which is 48" in result.stdout
    result = run("-m", "lci_tf.settings", "--flagfile=flags/ablation/patch32.flags", "--patch_size=40")
    assert "patch_size                   40 " in result.stdout
