from lci_tf.runs.results_folder import begin, digest

ASKED = {"solver": "sgd", "protocol": {"epochs": 2, "layers": ("conv1",)}, "seed": 0}


def test_a_folder_is_for_one_question(tmp_path, refusal):
    folder = tmp_path / "probe" / "a"
    assert begin(folder, ASKED, "probe") is None
    assert begin(folder, ASKED, "probe") is None  # begun, and not finished
    other = {**ASKED, "protocol": {"epochs": 3, "layers": ("conv1",)}}
    assert refusal(begin, folder, other, "probe") == (
        f"--out_dir={folder}: holds a probe with another protocol.epochs (2, and not 3); choose another folder"
    )
    assert digest(ASKED) != digest(other)


def test_folders_that_are_something_else(tmp_path, refusal):
    (tmp_path / "photo.jpg").write_text("")
    assert refusal(begin, tmp_path, ASKED, "probe") == (
        f"--out_dir={tmp_path}: is not empty, and not the folder of a probe; choose another"
    )
    assert "TensorFlow finds no checkpoints" in refusal(begin, tmp_path / "a[1]", ASKED, "probe")
    (tmp_path / "protocol.json").write_text("{")
    assert "protocol.json: is not JSON" in refusal(begin, tmp_path, ASKED, "probe")
