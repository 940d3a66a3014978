"""scripts/results: what it keeps of a run, and whether what needs no labels goes with a probe."""

import json
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "results"
LAYERS = ("conv1", "conv2", "conv3", "conv4", "conv5")


def results(*arguments):
    return subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True)


def write_run(path, probe, rank, agreement, last=200):
    """A run of 200 steps that was looked at in the beginning and at its end."""
    path.mkdir()
    (path / "run.flags").write_text(f"# a command\n--run_dir={path}\n--data_dir=/home/me/photos\n--border=3\n")
    (path / "run.json").write_text(json.dumps({"steps": 200, "data": {"images": 64}, "versions": {"lci_tf": "0.1"}}))
    records = [{"step": step, "loss/classifier": 1.23456789} for step in range(20, last + 1, 20)]
    for step, share in ((0, 0.5), (last, 1.0)):
        looked = {"step": step}
        for layer in LAYERS:
            looked |= {f"probe/{layer}_ridge": share * probe, f"features/{layer}_rank": rank,
                       f"features/{layer}_agreement": agreement}  # fmt: skip
        records.append(looked)
    (path / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_what_is_kept_says_what_was_done_and_not_where(tmp_path):
    run = write_run(tmp_path / "run", probe=0.6, rank=40, agreement=0.2)
    assert results("keep", run, tmp_path / "kept.json", "half width").returncode == 0
    text = (tmp_path / "kept.json").read_text()
    kept = json.loads(text)
    assert kept["flags"] == {"border": "3"} and str(tmp_path) not in text and "photos" not in text
    assert kept["note"] == "half width" and kept["data"] == {"images": 64}
    assert [look["step"] for look in kept["looks"]] == [0, 200]
    assert kept["log"] == [{"step": 100, "loss/classifier": 1.235}, {"step": 200, "loss/classifier": 1.235}]


def test_a_run_that_is_not_finished_is_not_kept(tmp_path):
    run = write_run(tmp_path / "run", probe=0.6, rank=40, agreement=0.2, last=160)
    ended = results("keep", run, tmp_path / "kept.json")
    assert ended.returncode == 1 and "ended at step 160 of 200; finish it first" in ended.stderr
    assert not (tmp_path / "kept.json").exists()


def test_over_trainings_the_ends_are_compared(tmp_path):
    pytest.importorskip("scipy")
    files = []
    for i, (probe, rank, agreement) in enumerate([(0.5, 10, 0.4), (0.6, 30, 0.3), (0.7, 90, 0.1)]):
        write_run(tmp_path / f"run{i}", probe, rank, agreement)
        files.append(tmp_path / f"kept{i}.json")
        results("keep", tmp_path / f"run{i}", files[-1])
    lines = [line.split() for line in results("watch", *files).stdout.splitlines()]
    assert ["rank", *["1.00"] * 5] in lines and ["agreement", *["-1.00"] * 5] in lines
    assert [line[0] for line in lines[-3:]] == ["kept2", "kept1", "kept0"]  # the best first
