"""The house: a room imports only from rooms before it, and the commands from all."""

import ast
import importlib
import pathlib
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(__file__).parents[1] / "lci_tf"
ROOMS = ["config", "plotting", "imaging", "data", "transforms", "models", "runs", "training",
         ("pretraining", "evaluation", "serving"), "embedding", "reporting"]  # fmt: skip
FLOOR = {room: floor for floor, rooms in enumerate(ROOMS) for room in ([rooms] if isinstance(rooms, str) else rooms)}
COMMANDS = {"check_data", "embed", "export", "figures", "finetune", "knn", "locality", "probe", "settings", "train",
            "voc"}  # fmt: skip
SHARED = {"__init__", "__main__", "cli", "closed_pipe", "errors", "files", "quiet_import"}


def imported(path):
    """The names of lci_tf that a file imports, as ("room", "module", …), also within functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        assert not getattr(node, "level", 0), f"{path} imports relatively, line {node.lineno}; give the whole name"
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "lci_tf":
            below = node.module.split(".")[1:]
            yield from ([*below, alias.name] for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1:] for alias in node.names if alias.name.startswith("lci_tf."))


def test_every_room_has_its_floor_and_the_top_holds_commands():
    folders = {path.parent.name for path in PACKAGE.glob("*/*.py")}
    assert folders == FLOOR.keys()
    assert {path.stem for path in PACKAGE.glob("*.py")} == COMMANDS | SHARED


@pytest.mark.parametrize("room", FLOOR)
def test_imports_point_downwards(room):
    for path in (PACKAGE / room).rglob("*.py"):
        for name, *_ in imported(path):
            assert name not in COMMANDS | {"cli"}, f"{path} imports a command, {name}"
            if name in FLOOR and name != room:
                assert FLOOR[name] < FLOOR[room], f"{path} imports {name}, which is not below it"


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("config/*.py")), ids=lambda path: path.stem)
def test_settings_need_no_tensorflow(path):
    assert "import tensorflow" not in path.read_text()


OFFERING = sorted(
    ".".join(path.parent.relative_to(PACKAGE.parent).parts)
    for path in PACKAGE.glob("*/**/__init__.py")
    if "names.offer(" in path.read_text()
)


@pytest.mark.parametrize("name", OFFERING)
def test_what_a_room_offers_is_there(name):
    room = importlib.import_module(name)
    assert len(room.__all__) == len(set(room.__all__)) and set(room.__all__) <= set(dir(room))
    for offered in room.__all__:
        found = getattr(room, offered)
        assert getattr(found, "__name__", offered) == offered or isinstance(found, type)
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        room.nothing  # noqa: B018


def test_looking_into_rooms_does_not_import_tensorflow():
    rooms = [name for name in OFFERING if name != "lci_tf.data"]  # where the images' graph operations are at hand
    code = f"import sys, importlib\nfor room in {rooms}: dir(importlib.import_module(room))\n"
    found = subprocess.run([sys.executable, "-c", code + "print('tensorflow' in sys.modules)"], capture_output=True)
    assert found.stdout == b"False\n", found.stderr.decode()
