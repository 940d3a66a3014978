"""The command, by an export and by a server."""

import numpy as np
import pytest
from PIL import Image

from lci_tf import cli, embed


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
def run_embed(photos, capsys):
    def run(*arguments):
        for name in cli.FLAGS:
            cli.FLAGS[name].unparse()
        given = ["embed", "--dataset=folder", f"--data_dir={photos}", "--max_bad_images=0.5", *arguments]
        cli.FLAGS(given)
        embed.main()
        return capsys.readouterr().out

    return run


def test_an_export_and_a_server_give_the_same(export_dir, stand_in, photos, run_embed, tmp_path):
    shown = run_embed(f"--model={export_dir}", f"--out_dir={tmp_path}/local", "--format=npy", "--batch_size=4")
    assert "Features of 13 images" in shown and "1 could not be read" in shown
    with stand_in(features=export_dir) as ports:
        server = f"--server=localhost:{ports['grpc']}"
        run_embed(server, f"--out_dir={tmp_path}/served", "--format=npy", "--batch_size=4")
    local, served = (np.load(tmp_path / name / "embedding.npy") for name in ("local", "served"))
    assert local.shape[0] == 13 and not local[5].any()
    np.testing.assert_allclose(local, served, atol=1e-5)
    shown = run_embed(f"--model={export_dir}", f"--out_dir={tmp_path}/local", f"--search={photos}/07.jpg",
                      "--neighbours=3")  # fmt: skip
    query, *neighbours, picture = shown.splitlines()
    assert query == f"{photos}/07.jpg" and len(neighbours) == 3 and f"{photos}/05.jpg" not in shown
    assert picture.endswith("search.png") and (tmp_path / "local" / "search.png").is_file()


def test_mistakes(export_dir, photos, run_embed, tmp_path, refusal):
    assert "--out_dir: where are the features to go?" in refusal(run_embed, f"--model={export_dir}")
    assert "give one of them" in refusal(run_embed, f"--out_dir={tmp_path}/a")
    model, out = f"--model={export_dir}", f"--out_dir={tmp_path}/a"
    assert "--features=conv9: " in refusal(run_embed, model, out, "--features=conv9")
    assert "is no image that can be read" in refusal(run_embed, model, out, f"--search={photos}/05.jpg")
    assert not (tmp_path / "a").exists()
