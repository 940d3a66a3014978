"""Runs that name programs from elsewhere, in every command that takes one."""

import pytest

from lci_tf.runs import trust

EVIL = "my_evil:Thing"  # there is no such module: whoever got as far as loading it would say so


@pytest.fixture
def run(tmp_path):
    """As far as it is read before it is trusted."""
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / "run.flags").write_text(f"--dataset=synthetic\n--transforms=rot,{EVIL}\n--trust_run=true\n")
    return tmp_path / "run"


@pytest.mark.parametrize(
    "command, flags, named",
    [
        ("probe", ["--run_dir={}"], "--run_dir"),
        ("probe", ["--random_init", "--run_dir={}/checkpoints/step-3"], "--run_dir"),
        ("probe", ["--random_init", "--task=tiles", "--seam_run_dir={}"], "--seam_run_dir"),
        pytest.param(*("knn", ["--random_init", "--compare={}"], "--compare"), marks=pytest.mark.slow),
        pytest.param(*("finetune", ["--run_dir={}"], "--run_dir"), marks=pytest.mark.slow),
        pytest.param(*("export", ["--run_dir={}"], "--run_dir"), marks=pytest.mark.slow),
        pytest.param(*("voc", ["--run_dir={}"], "--run_dir"), marks=pytest.mark.slow),
        ("figures", ["--run_dir={}"], "--run_dir"),
        pytest.param(*("locality", ["--run_dir={}"], "--run_dir"), marks=pytest.mark.slow),
        ("train", ["--init_from={}", "--run_dir={}_new"], "--init_from"),
        ("train", ["--inpainter={}", "--run_dir={}_new"], "--inpainter"),
    ],
)
def test_a_run_that_names_a_program_needs_trust(run, run_command, command, flags, named):
    flags = [flag.format(run) for flag in flags]
    with_trust = [*flags, "--trust_run", "--nodownload"]
    (refused, trusted) = run_command(command, flags, with_trust)
    code, _, errors = refused
    assert code == 2 and errors.count("\n") == 1, errors
    assert errors.startswith(f"lci_tf.{command}: {named}=") and f"names {EVIL}, a program" in errors
    assert "--trust_run" in errors
    assert "--trust_run" not in trusted[2], "it gets no further with it"


def test_a_transformation_of_ones_own_needs_no_flag_but_a_file_that_names_one_does(run, run_command, tmp_path):
    fresh = [f"--transforms={EVIL}", f"--run_dir={tmp_path}/fresh"]
    spaced = ["--transforms", EVIL, f"--run_dir={tmp_path}/fresh"]
    from_file = [f"--flagfile={run}/run.flags", f"--run_dir={tmp_path}/fresh"]
    added = ["--transforms=mine:Roll", *from_file]
    for flags in (fresh, spaced, [*from_file, "--trust_run"]):
        ((code, _, errors),) = run_command("train", flags)
        assert code == 2 and "no module my_evil" in errors, errors
    for flags in (from_file, added, [*from_file, "--trust_run=false"]):
        ((code, _, errors),) = run_command("train", flags)
        assert code == 2 and f"--transforms={EVIL}: is code from outside lci_tf, named by a flagfile" in errors, errors


@pytest.mark.parametrize(
    "flags, named",
    [
        ({"transforms": "rot,warp,lci", "dataset": "tfds:cifar10"}, None),
        ({"transforms": "rot,a.b:C"}, "a.b:C"),
        ({"dataset": "tfds:someone:photos"}, "tfds:someone:photos"),
        ({"probe_dataset": "tfds:someone:photos", "dataset": "stl10"}, "tfds:someone:photos"),
        ({"dataset": "voc/2007"}, None),
    ],
)
def test_what_is_a_program_from_elsewhere(flags, named):
    assert trust.foreign(flags) == named
