"""The blocks of the guides, run in order as a reader would, on few small images and for few steps."""

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys

import numpy as np
import pages
import pytest
from PIL import Image

from lci_tf.data.sets.stl10 import CLASSES

ROOT = pages.ROOT
GUIDES = ["README.md", "docs/getting_started.md", "docs/pretraining.md", "docs/transformations.md", "docs/data.md",
          "docs/evaluation.md", "docs/serving.md", "docs/locality.md", "docs/troubleshooting.md"]  # fmt: skip
# Pages with blocks that are not run, and why. All of their flags are parsed by test_docs.py.
NOT_RUN = {
    "docs/results.md": "measurements on data sets that are not here",
    "docs/lci.md": "measurements on data sets that are not here",
    "docs/voc.md": "needs VOC; test_voc.py and evaluation/voc run its tasks on small data of the same form",
    "docs/scale.md": "needs several machines; test_ended.py, pretraining/test_processes.py and embedding/test_dask.py",
    "CONTRIBUTING.md": "runs these tests",
    "SECURITY.md": "shows how servers are run, and not lci_tf",
}
# What cannot run here, by what stands in it, and why.
SKIPPED = {
    "pip install": "it is installed",
    "scripts/quickstart": "makes an environment, and trains for minutes",
    "scripts/test": "runs this",
    "scripts/serve": "needs TF Serving, whose place the stand-in takes",
    "TF_CONFIG=": "needs two machines; tests/pretraining/test_processes.py has two workers",
    "DataflowRunner": "needs a project at Google",
    "flags/ablation": "tests/test_package.py reads them all",
    "lci_tf.train --dataset=stl10\n": "another, with a transformation of one's own, is run",
    "lci_tf.train --dataset=folder --data_dir=DIR\n": "RUN is the README's; these images are seen in --dry_run",
    "lci_tf.locality --run_dir=RUN\n": "the next one is of a run too",
    "--init_from": "tests/pretraining/test_training.py",
    "--resample=each": "measures what the line above does",
    "S/stl10": "measures; the same command is run above",
    "PolyharmonicWarp(": "has images from elsewhere; tests/transforms/test_warp.py",
}
SMALL = {
    "train": ["--steps=2", "--width=0.05", "--crop_size=32", "--resize=48", "--patch_size=16", "--batch_size=8"],
    "check_data": ["--batch_size=8"],
    "settings": [],
    "probe": ["--epochs=1"],
    "knn": ["--k=1,5"],
    "finetune": ["--epochs=1"],
    "figures": ["--mean_images=8", "--knn_images=16", "--map_images=16"],
    "export": [],
    "embed": [],
    "locality": ["--windows=3", "--seeds=1", "--images=64", "--steps=1"],
}
# What the pages call by names in capitals.
PLACES = {"DIR": "DIR", "LABELLED": "DIR", "RUN": "runs/quickstart", "FEATURES": "FEATURES", "SERVED": "SERVED",
          "BEAM": "BEAM", "OUT": "OUT"}  # fmt: skip
STANDS_FOR_ITSELF = {"JPEG", "PNG", "STL", "TF"}


@pytest.fixture
def place(tmp_path):
    """Where a reader is, with photographs in DIR that are STL-10 too."""
    rng = np.random.default_rng(0)
    for split, count in {"train": 20, "test": 3}.items():
        for name in CLASSES:
            (tmp_path / "DIR" / split / name).mkdir(parents=True)
            for i in range(count):
                rough = Image.fromarray(rng.integers(0, 256, [5, 5, 3], np.uint8))
                rough.resize((96, 96), Image.Resampling.BICUBIC).save(tmp_path / "DIR" / split / name / f"{i}.jpg")
    (tmp_path / "photo.jpg").symlink_to(tmp_path / "DIR/test/cat/0.jpg")
    for name in ("flags", "scripts"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


@pytest.fixture
def run(place):
    """Runs words as the program of this name would, in the reader's place; see `command_forks.py`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    # Images and networks are tiny, and threads that wait for each other burn time where other tests run beside.
    one_thread = dict.fromkeys(["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"], "1")
    environment |= {"PYTHONPATH": f"{place}{os.pathsep}{ROOT}", **one_thread}
    command = [sys.executable, str(ROOT / "tests/command_forks.py")]
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(*words):
        print(json.dumps([str(place), words]), file=process.stdin, flush=True)
        code, said, seconds = json.loads(process.stdout.readline())
        print(f"{seconds:6.1f} s  {shlex.join(words)[:150]}", flush=True)  # shown by pytest -s, or if the test fails
        assert code == 0, f"{shlex.join(words)}\n{said}"

    yield run
    process.communicate()  # the end of its input is its end


def why_skipped(text):
    return next((why for part, why in SKIPPED.items() if part in f"{text}\n"), None)


def small(words):
    """A command with what makes it short; the paper's STL-10 is in DIR, which the pages leave out."""
    words = words[words.index("python") :] if "python" in words else words  # what comes before sets the environment
    assert words[:2] == ["python", "-m"], f"what is {' '.join(words)!r}? Run it, or say in SKIPPED why not"
    module, *flags = words[2:]
    name = module.removeprefix("lci_tf.")
    flags += SMALL[name]
    if "--solver=ridge" in flags:  # has no epochs
        flags.remove("--epochs=1")
    flags = [flag.replace("num_workers=4", "num_workers=1") for flag in flags]
    if name == "locality":
        flags = [flag for flag in flags if flag != "--quick"]
    from_stl10 = any(flag == "--dataset=stl10" or flag == "--flagfile=flags/tiles.flags" for flag in flags)
    if from_stl10 and name in ("train", "probe") and not any(flag.startswith("--data_dir") for flag in flags):
        flags.append("--data_dir=DIR")
    return ["-m", module, *flags]


def test_every_page_with_blocks_is_run_or_says_why_not():
    with_blocks = {page for page, text in pages.PAGES.items() if any(lang != "text" for lang, _ in pages.blocks(text))}
    assert with_blocks <= {*GUIDES, *NOT_RUN}


@pytest.mark.slow
def test_the_blocks_of_the_guides_run_in_order(place, run, stand_in):
    ran = set()
    with contextlib.ExitStack() as servers:

        def as_here(text):
            """With what this reader has in the place of what the page calls so."""
            if "localhost:8500" in text:
                export = at("CLASSIFIER" if "classifier" in text else "RUN") / "export"
                ports = servers.enter_context(stand_in(features=export))
                text = text.replace("localhost:8500", f"localhost:{ports['grpc']}")
            text = text.replace("epochs=20", "epochs=1")
            return re.sub(r"\b[A-Z]{2,}\b", lambda word: str(at(word[0])), text)

        def at(word):
            if word in STANDS_FOR_ITSELF:
                return word
            if word == "CLASSIFIER":
                (folder,) = (place / PLACES["RUN"] / "finetune").iterdir()
                return folder
            assert word in PLACES, f"what is {word}? Say it in PLACES"
            return place / PLACES[word]

        for page in GUIDES:
            for language, block in pages.blocks(pages.PAGES[page]):
                if language == "python" and "class Roll" in block:
                    (place / "my_transforms.py").write_text(block)
                elif language == "python" and not why_skipped(block):
                    run("-c", as_here(block))
                elif not language:
                    for words in pages.commands(block):
                        command = tuple(small(words)) if not why_skipped(" ".join(words)) else None
                        if command and command not in ran:  # one that stands on two pages is run once
                            run(*map(as_here, command))
                            ran.add(command)
    assert {command[1] for command in ran} == {f"lci_tf.{name}" for name in SMALL}
    roll = (place / "my_transforms.py").read_text()
    assert len([line for line in roll.splitlines() if line.strip()]) <= 20
    last = (place / "runs/roll/metrics.jsonl").read_text().splitlines()[-1]
    assert '"accuracy/roll"' in last and '"accuracy/lci"' in last
