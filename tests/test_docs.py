"""What the pages say is there: links, files, commands and flags. `test_docs_blocks.py` runs what they show."""

import ast
import functools
import importlib
import json
import re
import subprocess
import sys

import pages
import pytest

import lci_tf
from lci_tf.__main__ import COMMANDS

ROOT, PAGES = pages.ROOT, pages.PAGES
# Flags of scripts and other programs that the prose names.
OF_OTHERS = {"all", "python", "host", "constraint", "logdir", "help", "setup_file", "requeue", "signal",
             "dask_client_address", "dask_partition_size"}  # fmt: skip

_PARSE = """
import importlib, json, sys
from absl import flags
from lci_tf import cli
from lci_tf.errors import InputError

importlib.import_module(f"lci_tf.{sys.argv[1]}")
refused = []
for words in json.load(sys.stdin):
    for flag in cli.FLAGS:
        cli.FLAGS[flag].unparse()
    try:
        rest = cli.FLAGS(["", *words])[1:]
        assert not rest, f"unexpected {rest}"
        if sys.argv[1] in ("train", "settings"):
            cli.settings_from_flags().check()
    except (AssertionError, flags.Error, InputError) as error:
        refused.append(f"{' '.join(words)}: {error}")
known = [flag for group, found in cli.FLAGS.flags_by_module_dict().items() if "." not in group for flag in found]
print(json.dumps([refused, [flag.name for flag in known]]))
"""


@functools.cache
def parsed(command):
    """What a command refuses of the lines that the pages have of it; and all of its flags."""
    lines = [flags for text in PAGES.values() for name, flags in pages.our_commands(text) if name == command]
    done = subprocess.run(
        [sys.executable, "-c", _PARSE, command], cwd=ROOT, input=json.dumps(lines), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", pages.prose(PAGES[page])):
        if target.startswith(("https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        file = ((ROOT / page).parent / path).resolve() if path else ROOT / page
        assert file.exists(), f"{page}: {target}"
        if anchor:
            assert anchor in pages.anchors(file.read_text()), f"{page}: {target}"


def test_every_page_can_be_found_from_the_readme():
    linked = set(re.findall(r"\]\(([\w/]+\.md)", PAGES["README.md"]))
    assert linked == PAGES.keys() - {"README.md"}


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_named_are_there(page):
    for path in re.findall(r"(?<![\w./])(?:scripts|flags|results|tests|docs|lci_tf)/[\w/.*]*\w", PAGES[page]):
        assert any(ROOT.glob(path)), f"{page}: {path}"


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_shown_with_flags_that_they_take(command):
    refused, _ = parsed(command)
    assert not refused, "\n".join(refused)


def test_commands_and_flags_that_are_named_exist():
    known = {flag for command in COMMANDS for flag in parsed(command)[1]} | {"flagfile"} | OF_OTHERS
    for page, text in PAGES.items():
        for module in re.findall(r"\blci_tf\.([a-z_]+)\b(?!\.)", pages.prose(text)):
            there = [ROOT / "lci_tf" / module, ROOT / "lci_tf" / f"{module}.py"]
            assert module in lci_tf.__all__ or any(path.exists() for path in there), f"{page}: lci_tf.{module}"
        for code in pages.inline_code(text):
            for flag in re.findall(r"(?<![\w-])--(\w+)", code):
                assert flag in known or flag.removeprefix("no") in known, f"{page}: --{flag}"


@pytest.mark.parametrize("page", PAGES)
def test_python_is_python_and_imports_what_there_is(page):
    for language, block in pages.blocks(PAGES[page]):
        for node in ast.walk(ast.parse(block)) if language == "python" else ():
            if isinstance(node, ast.ImportFrom) and node.module.startswith("lci_tf"):
                module = importlib.import_module(node.module)
                for alias in node.names:
                    if not hasattr(module, alias.name):
                        importlib.import_module(f"{node.module}.{alias.name}")
