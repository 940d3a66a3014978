"""`python -m lci_tf` lists the commands."""

import ast
import pathlib

from lci_tf import closed_pipe

COMMANDS = (
    "check_data", "settings", "locality", "train", "probe", "knn", "finetune", "voc", "figures", "export", "embed",
)  # fmt: skip


def main() -> None:
    print("Commands, each with --help:\n")
    for name in COMMANDS:
        # Parsed, not imported: a list should not wait for TensorFlow.
        source = (pathlib.Path(__file__).parent / f"{name}.py").read_text()
        documented = ast.get_docstring(ast.parse(source)) or ""
        print(f"  python -m lci_tf.{name:14s} {documented.splitlines()[0]}")


if __name__ == "__main__":
    with closed_pipe.ends_quietly():
        main()
