"""Lists the commands."""

import ast
import pathlib

COMMANDS = (
    "check_data", "settings", "train", "probe", "knn", "finetune", "figures", "export", "embed",
)  # fmt: skip


def main():
    print("Commands, each with --help:\n")
    for name in COMMANDS:
        # Read, not imported: a list should not wait for TensorFlow.
        source = (pathlib.Path(__file__).parent / f"{name}.py").read_text()
        print(f"  python -m lci_tf.{name:14s} {ast.get_docstring(ast.parse(source)).splitlines()[0]}")


if __name__ == "__main__":
    main()
