"""The command, on a training of one step."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
TINY = ["--transforms=rot", "--crop_size=32", "--width=0.05", "--batch_size=8"]


def run(command, *arguments):
    return subprocess.run(
        [sys.executable, "-m", f"lci_tf.{command}", *arguments], cwd=ROOT, capture_output=True, text=True
    )


@pytest.mark.slow
def test_exported_during_the_training_and_after_it(tmp_path):
    result = run("train", f"--run_dir={tmp_path}/run", *TINY, "--steps=2", "--export_every=1")
    assert result.returncode == 0, result.stderr
    result = run("export", f"--run_dir={tmp_path}/run", "--features=embedding,conv3", "--half")
    assert result.returncode == 0, result.stderr
    assert f"Exported   {tmp_path}/run/export/3\n" in result.stdout and "MB of weights instead of" in result.stdout
    assert sorted(path.name for path in (tmp_path / "run" / "export").iterdir()) == ["1", "2", "3"]
    result = run("export", f"--run_dir={tmp_path}/run", "--version=2")
    assert result.returncode == 2 and "2: this version exists already" in result.stderr
    result = run("export", f"--run_dir={tmp_path}/run", "--format=keras", f"--export_dir={tmp_path}/keras")
    assert (tmp_path / "keras" / "classifier.keras").is_file()


def test_mistakes_are_reported_in_one_line(tmp_path, run_command):
    for arguments, message in (
        ([], "lci_tf.export: --run_dir: missing; give a run of lci_tf.train to export"),
        ([f"--run_dir={tmp_path}/none"], f"lci_tf.export: --run_dir={tmp_path}/none: no such run or checkpoint"),
        (
            [f"--run_dir={tmp_path}", "--export_dir=gs://bucket/a"],
            "lci_tf.export: --export_dir=gs://bucket/a: must be a local folder; copy exports to the bucket from there",
        ),
    ):
        ((code, _, errors),) = run_command("export", arguments)
        assert code == 2 and errors == message + "\n"
