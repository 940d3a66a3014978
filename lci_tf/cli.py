"""What the commands have in common: grouped flags, quick help, settings from flags, and mistakes told in one line.

Nothing here imports TensorFlow, so that `--help` answers at once.
"""

import dataclasses
import logging
import pathlib
import sys
import textwrap
from collections.abc import Callable, Sequence

from absl import flags
from tqdm import tqdm

from lci_tf.config import presets
from lci_tf.errors import InputError

FLAGS = flags.FLAGS
DATA = "Data"


def define_dataset_flag() -> None:
    flags.DEFINE_string(
        "dataset",
        "synthetic",
        f"one of {', '.join(presets.DATASETS)}; or tfds:NAME for any other of tensorflow-datasets",
        module_name=DATA,
    )


def define_source_flags(split_help: str = "which part of the data set") -> None:
    """`--dataset`, and where and what of it."""
    define_dataset_flag()
    flags.DEFINE_list(
        "data_dir",
        [],
        "where the data set is; several folders, separated by commas, are joined",
        module_name=DATA,
    )
    flags.DEFINE_string("split", None, split_help, module_name=DATA)


def define_data_flags(split_help: str = "which part of the data set; by default the one to pre-train on") -> None:
    """The same, and what a command needs that draws from the images or leaves some out."""
    define_source_flags(split_help)
    flags.DEFINE_integer("seed", 0, "of everything random", lower_bound=0, upper_bound=2**32 - 1, module_name=DATA)
    flags.DEFINE_float(
        "max_bad_images",
        0.01,
        "how many unreadable images to leave out before stopping: a share of the set if below 1, else a number",
        module_name=DATA,
    )
    flags.register_validator("max_bad_images", lambda value: value >= 0, "expected 0 or more")  # and nan is not


def define_settings_flags(*names: str) -> None:
    """Flags for these fields of `presets.Settings`, or for all. Unset, the data set's preset holds."""
    define = {int: flags.DEFINE_integer, float: flags.DEFINE_float, bool: flags.DEFINE_boolean}
    for field in dataclasses.fields(presets.Settings):
        if not names or field.name in names:
            text, group, choices = (field.metadata[key] for key in ("help", "group", "choices"))
            if choices:
                flags.DEFINE_enum(field.name, None, choices, text, module_name=group)
            else:
                define.get(field.type, flags.DEFINE_list)(field.name, None, text, module_name=group)


def define_model_flags() -> None:
    """Which network a command looks at; see `model_from_flags`."""
    group = "Network"
    flags.DEFINE_string("run_dir", None, "a run of lci_tf.train, or a checkpoint of one", module_name=group)
    flags.DEFINE_enum("checkpoint", "latest", ["latest", "best"], "which of the run", module_name=group)
    flags.DEFINE_string("model", None, "any SavedModel or Keras model instead of a run", module_name=group)
    flags.DEFINE_enum("pixels", "-1..1", ["-1..1", "0..1", "0..255"], "what --model expects", module_name=group)
    flags.DEFINE_boolean(
        "random_init",
        False,
        "a network that has learned nothing: that of --run_dir, else of --backbone and --width",
        module_name=group,
    )
    flags.DEFINE_list("layers", [], "which feature maps; by default all", module_name=group)
    define_settings_flags("backbone", "width")


def model_from_flags():
    """The `trained.FeatureModel` that the flags name, with all its layers."""
    if bool(FLAGS.run_dir) + bool(FLAGS.model) > 1:
        raise InputError("--run_dir and --model: give one of them")
    if FLAGS.model and FLAGS.random_init:
        raise InputError("--random_init: goes with --run_dir, or with --backbone, and not with --model")
    if not (FLAGS.run_dir or FLAGS.model or FLAGS.random_init):
        raise InputError("--run_dir: which network? Give a run of lci_tf.train; or --model, or --random_init")
    from lci_tf.runs import trained

    if FLAGS.model:
        return trained.from_file(FLAGS.model, FLAGS.layers, FLAGS.pixels)
    if FLAGS.random_init and not FLAGS.run_dir:
        settings = settings_from_flags()
        return trained.random(settings.backbone, settings.width, FLAGS.seed)
    for name in ("backbone", "width"):
        if FLAGS[name].value is not None:
            raise InputError(f"--{name}: is for --random_init without a run; --run_dir has its own")
    if FLAGS.random_init:
        return trained.random_like(FLAGS.run_dir, FLAGS.seed)
    return trained.from_run(FLAGS.run_dir, FLAGS.checkpoint)


def settings_from_flags() -> presets.Settings:
    """The preset of `--dataset`, with the flags that were set instead. What of it to check, the command knows."""
    given = {}
    for field in dataclasses.fields(presets.Settings):
        value = FLAGS[field.name].value if field.name in FLAGS else None
        if value is not None:
            given[field.name] = tuple(value) if isinstance(value, list) else value
    return presets.resolve(FLAGS.dataset, given)


def run(main: Callable[[], int | None], usage: str) -> None:
    """Parses the flags and runs a command. What the user can put right is told in one line, with exit code 2.

    Args:
      main: the command; returns the exit code, None for 0.
      usage: what the command is for, the text above the flags in its help.
    """
    name = f"lci_tf.{pathlib.Path(sys.argv[0]).stem}"
    if {"--help", "-help", "-h", "--h"} & set(sys.argv[1:]):
        print(help_text(name, usage))
        return
    _log_to_stderr()
    try:
        rest = FLAGS(sys.argv)[1:]
        if rest:
            raise InputError(f"what is {rest[0]!r}? Flags are written --name=value; see --help")
        code = main()
    except flags.Error as error:
        code = _fail(name, f"{' '.join(str(error).split())} (see --help)")
    except InputError as error:
        code = _fail(name, str(error))
    except OSError as error:
        code = _fail(name, f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        code = _fail(name, "interrupted", code=130)
    sys.exit(code or 0)


def _fail(name, message, code=2):
    print(f"{name}: {message}", file=sys.stderr)
    return code


def help_text(name: str, usage: str) -> str:
    """The usage, then the flags of this command by group, each with its default."""
    lines = [f"python -m {name} [--flag=value …]", "", usage.strip()]
    for group, defined in FLAGS.flags_by_module_dict().items():
        if group.startswith("absl") or "." in group or group == sys.argv[0]:
            continue  # absl's own
        lines += ["", group]
        for flag in defined:
            default = ",".join(flag.default) if isinstance(flag.default, list) else flag.default
            lines += _entry(f"--{flag.name}", flag.help + ("" if default in (None, "") else f" [{default}]"))
    lines += ["", "Also"]
    lines += _entry("--flagfile", "read further flags from this file, one per line, such as those in flags/")
    return "\n".join(lines)


def _entry(flag, text) -> Sequence[str]:
    wrapped = textwrap.wrap(" ".join(text.split()), 86)
    first = f"  {flag:28s} {wrapped[0]}" if len(flag) < 28 else f"  {flag}"
    return [first] + [" " * 31 + line for line in wrapped[len(flag) < 28 :]]


class _AboveTheBar(logging.Handler):
    """Writes a line without tearing a progress bar."""

    def emit(self, record):
        tqdm.write(f"lci_tf: {self.format(record)}", file=sys.stderr)


def _log_to_stderr():
    log = logging.getLogger("lci_tf")
    log.addHandler(_AboveTheBar())
    log.setLevel(logging.INFO)
    log.propagate = False
    logging.getLogger("absl").setLevel(logging.ERROR)  # where tensorflow-datasets tells what it looks at
