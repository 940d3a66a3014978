import errno
import os
import pathlib
import subprocess
import sys
import threading

import pytest
import tensorflow as tf

from lci_tf.runs import export_folder


def write_version(export_dir, version=None, trouble=None):
    with export_folder.new_version(export_dir, version) as folder:
        (folder / "saved_model.pb").write_text("a graph")
        if trouble:
            raise trouble


def test_versions_count_up_and_are_never_overwritten(tmp_path, refusal):
    for version in (None, 20, None):
        write_version(tmp_path, version)
    assert refusal(write_version, tmp_path, 20).startswith(f"{tmp_path}/20: this version exists already")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "20", "21"]
    assert export_folder.folder_of(tmp_path) == tmp_path / "21"
    assert os.access(tmp_path / "21", os.R_OK | os.X_OK)


EXPORTING = """
import os, pathlib, signal, sys
from lci_tf.runs import export_folder

place = pathlib.Path(sys.argv[1])
with export_folder.new_version(place) as folder:
    (folder / "half").touch()
    print(flush=True)
    sys.stdin.readline()
sys.stdin.readline()
with export_folder.new_version(place):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_export_has_left_is_removed_and_not_what_another_is_writing(tmp_path):
    (tmp_path / ".serving").mkdir()  # of scripts/serve
    other = subprocess.Popen(
        [sys.executable, "-c", EXPORTING, str(tmp_path)],
        cwd=pathlib.Path(__file__).parents[2], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    other.stdout.readline()
    threading.Timer(0.5, lambda: print(file=other.stdin, flush=True)).start()
    with export_folder.new_version(tmp_path) as folder:  # waits for its turn
        assert (tmp_path / "1" / "half").exists() and folder.name.startswith(".")
    other.communicate("\n")
    names = {path.name for path in tmp_path.iterdir()}
    assert {".serving", "1", "2"} < names and len(names) == 4
    with export_folder.new_version(tmp_path):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {".serving", "1", "2", "3"}


def test_a_full_disk_leaves_nothing(tmp_path, refusal):
    full = tf.errors.ResourceExhaustedError(None, None, "No space left on device")
    assert refusal(write_version, tmp_path, 1, full).endswith("cannot be written (No space left on device)")
    with pytest.raises(OSError):
        write_version(tmp_path, 1, OSError(errno.ENOSPC, "No space left on device"))
    assert list(tmp_path.iterdir()) == []
    assert refusal(export_folder.folder_of, tmp_path).endswith(
        "has no exported version, a folder whose name is a number"
    )
