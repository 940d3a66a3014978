"""The project's pages in Markdown: their links, commands and blocks, for the tests of the documentation."""

import pathlib
import re
import shlex

ROOT = pathlib.Path(__file__).parents[1]
PAGES = {str(path.relative_to(ROOT)): path.read_text() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]}
_BLOCK = re.compile(r"^[ ]*```(\w*)\n(.*?)^[ ]*```$", re.DOTALL | re.MULTILINE)


def blocks(text: str) -> list[tuple[str, str]]:
    """Language, "" for commands, and content of each fenced block."""
    return _BLOCK.findall(text)


def prose(text: str) -> str:
    """All but the fenced blocks."""
    return _BLOCK.sub("", text)


def inline_code(text: str) -> list[str]:
    """What stands between single backticks in the prose, each on one line."""
    return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose(text))]


def commands(block: str) -> list[list[str]]:
    """Lists of words, without comments; a line that ends with a backslash goes on in the next."""
    lines = block.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def our_commands(text: str) -> list[tuple[str, list[str]]]:
    """The commands of lci_tf in the blocks and in the prose: pairs of a name, such as "train", and its flags."""
    found = [words for language, block in blocks(text) if not language for words in commands(block)]
    found += [shlex.split(code) for code in inline_code(text) if code.startswith("python -m lci_tf.")]
    for words in found:
        if "lci_tf." in " ".join(words) and "python" in words:
            module, *flags = words[words.index("python") + 2 :]  # what comes before it sets the environment
            yield module.removeprefix("lci_tf."), flags


def anchors(text: str) -> set[str]:
    """The names by which a page's headings are linked to, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
