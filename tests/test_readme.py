"""What the README shows is what happens."""

import pathlib
import re
import subprocess
import sys

import pytest

from lci_tf.__main__ import COMMANDS

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def python_block(containing):
    (block,) = [b for b in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if containing in b]
    return block


@pytest.mark.slow
def test_a_transformation_of_ones_own_is_one_more_class(tmp_path):
    module = python_block("class Roll")
    assert len([line for line in module.splitlines() if line.strip()]) <= 20
    (tmp_path / "my_transforms.py").write_text(module)
    flags = ["--transforms=rot,lci,my_transforms:Roll", "--steps=2", "--width=0.05", "--crop_size=32", "--batch_size=8"]
    command = [sys.executable, "-m", "lci_tf.train", *flags, f"--run_dir={tmp_path / 'run'}"]
    result = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PATH": ""}, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    last = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1]
    assert '"accuracy/roll"' in last and '"accuracy/lci"' in last


def test_the_commands_and_flags_that_the_readme_names_exist():
    for module in re.findall(r"python -m (lci_tf\.\w+)", README):
        assert (ROOT / f"{module.replace('.', '/')}.py").exists(), module
    for path in re.findall(r"(?:scripts|flags)/[\w/.]+\w", README):
        assert (ROOT / path).exists(), path
    known = {
        flag
        for name in COMMANDS
        for flag in re.findall(
            r"^  --(\w+)",
            subprocess.run(
                [sys.executable, "-m", f"lci_tf.{name}", "--help"], cwd=ROOT, capture_output=True, text=True
            ).stdout,
            re.MULTILINE,
        )
    }
    scripts = {"all", "python", "constraint", "logdir", "help", "flagfile"}
    without_beams_own = re.sub(r"(--runner_options)='.*?'", r"\1", README)
    for flag in re.findall(r"(?<![\w-])--(\w+)", without_beams_own):
        assert flag in known | scripts, flag
