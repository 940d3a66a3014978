"""The command, by an export and by a server."""

import numpy as np
import pytest
from PIL import Image


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for i in range(13):
        rough = Image.fromarray(rng.integers(0, 256, [4, 4, 3], np.uint8))
        rough.resize((48, 40), Image.Resampling.BICUBIC).save(folder / f"{i:02d}.jpg")
    (folder / "05.jpg").write_text("no image")
    return folder


@pytest.fixture
def run_embed(run_command, photos):
    data = ["--dataset=folder", f"--data_dir={photos}", "--batch_size=4", "--format=npy"]
    return lambda *commands: run_command("embed", *([*data, *command] for command in commands))


def test_an_export_and_a_server_give_the_same(export_dir, stand_in, photos, run_embed, tmp_path):
    with stand_in(features=export_dir) as ports:
        local, served, searched = run_embed(
            [f"--model={export_dir}", f"--out_dir={tmp_path}/local"],
            [f"--server=localhost:{ports['grpc']}", f"--out_dir={tmp_path}/served"],
            [f"--model={export_dir}", f"--out_dir={tmp_path}/local", f"--search={photos}/07.jpg", "--neighbours=3"],
        )
    for code, output, errors in (local, served):
        assert code == 0 and "Features of 13 images" in output and "1 could not be read" in output, errors
    by_export, by_server = (np.load(tmp_path / name / "embedding.npy") for name in ("local", "served"))
    assert by_export.shape[0] == 13 and not by_export[5].any()
    np.testing.assert_allclose(by_export, by_server, atol=1e-5)
    query, *neighbours, picture = searched[1].splitlines()
    assert query == f"{photos}/07.jpg" and len(neighbours) == 3 and f"{photos}/05.jpg" not in searched[1]
    assert picture.endswith("search.png") and (tmp_path / "local" / "search.png").is_file()


def test_mistakes_are_told_in_one_line(export_dir, photos, run_embed, tmp_path):
    model, out = f"--model={export_dir}", f"--out_dir={tmp_path}/a"
    mistakes = {
        "--out_dir: where are the features to go?": [model],
        "--model or --server: give one of them": [out],
        "--features=conv9: ": [model, out, "--features=conv9"],
        "05.jpg: is no image that can be read": [model, out, f"--search={photos}/05.jpg"],
        "--model=none: no such folder": ["--model=none", out],
        "--server=localhost:9: ": ["--server=localhost:9", "--deadline=2", out],
    }
    for message, (code, output, errors) in zip(mistakes, run_embed(*mistakes.values()), strict=True):
        assert code == 2 and output == "" and message in errors and errors.count("\n") == 1, errors
    assert not (tmp_path / "a").exists()
