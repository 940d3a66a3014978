import json
import pathlib

from lci_tf.runs import provenance
from lci_tf.runs.results_folder import begin, default, keep

PARTS = {"solver": "sgd", "protocol": {"epochs": 2, "layers": ("conv1",)}, "seed": 0}
ASKED = provenance.question(**PARTS)


def test_a_folder_is_for_one_question(tmp_path, refusal):
    folder = tmp_path / "probe" / "a"
    assert begin(folder, ASKED, "probe") is None
    assert begin(folder, ASKED, "probe") is None  # begun, and not finished
    keep(folder, {"accuracy": 0.5})
    assert begin(folder, ASKED, "probe") == {"accuracy": 0.5}
    other = provenance.question(**{**PARTS, "protocol": {"epochs": 3, "layers": ("conv1",)}})
    assert refusal(begin, folder, other, "probe") == (
        f"--out_dir={folder}: holds a probe with another protocol.epochs (2, not 3); choose another folder"
    )
    origin = {"run": "runs/one", "step": 7}
    places = [default("probe", ["own"], origin, asked) for asked in (ASKED, other)]
    assert places[0] != places[1] and places[0].parent == pathlib.Path("runs/one/probe")
    assert places[0].name.startswith("own_step-7_")


def test_results_without_a_run_go_into_runs():
    assert default("probe", ["own"], {"random": True, "seed": 0}, ASKED).parent == pathlib.Path("runs/random/probe")
    assert default("knn", ["own"], {"model": "/of/theirs.keras"}, ASKED).parent == pathlib.Path("runs/theirs/knn")
    of_a_run = {"run": "runs/one", "random": True}  # as it was before it learned anything
    assert default("probe", ["own"], of_a_run, ASKED).parent == pathlib.Path("runs/one/probe")


def test_results_of_another_version(tmp_path, refusal):
    begin(tmp_path / "a", ASKED, "probe")
    path = tmp_path / "a" / "protocol.json"
    path.write_text(json.dumps({**ASKED, "lci_tf": "0.0.1"}))
    assert "holds a probe with another lci_tf (0.0.1, not " in refusal(begin, tmp_path / "a", ASKED, "probe")
    path.write_text(json.dumps({name: value for name, value in ASKED.items() if name != "lci_tf"}))
    assert refusal(begin, tmp_path / "a", ASKED, "probe") == (
        f"--out_dir={tmp_path}/a: holds a probe of unknown origin, which an earlier version of lci_tf did not record; "
        "choose another folder"
    )


def test_folders_that_are_something_else(tmp_path, refusal):
    (tmp_path / "photo.jpg").write_text("")
    assert refusal(begin, tmp_path, ASKED, "probe") == (
        f"--out_dir={tmp_path}: is not empty, and not the folder of a probe; choose another"
    )
    assert "TensorFlow finds no checkpoints" in refusal(begin, tmp_path / "a[1]", ASKED, "probe")
    (tmp_path / "protocol.json").write_text("{")
    assert "protocol.json: is not JSON" in refusal(begin, tmp_path, ASKED, "probe")
