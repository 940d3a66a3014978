"""What all commands share: groups of flags, their help, settings from flags, and one-line reports of user mistakes.

Nothing here imports TensorFlow, so that `--help` answers at once.
"""

import dataclasses
import itertools
import logging
import os
import pathlib
import re
import sys
import textwrap
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from absl import flags
from tqdm import tqdm

import lci_tf
from lci_tf import closed_pipe
from lci_tf.config import names, presets
from lci_tf.config.settings import Settings
from lci_tf.errors import InputError
from lci_tf.runs import preemption

if TYPE_CHECKING:
    from lci_tf.runs.trained import FeatureModel

FLAGS = flags.FLAGS
if os.environ["TF_CPP_MIN_LOG_LEVEL"] == lci_tf.ERRORS:
    # Commands report in their own words what users need to know, such as which images are damaged.
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
DATA, LABELS = "Data", "Labels"


def define_dataset_flag() -> None:
    flags.DEFINE_string(
        "dataset",
        "synthetic",
        f"data set: one of {', '.join(names.DATASETS)}; or tfds:NAME for any other in tensorflow-datasets",
        module_name=DATA,
    )


def define_source_flags(split_help: str = "split of the data set") -> None:
    """Flags that say which images: `--dataset`, `--data_dir`, `--split` and `--download`."""
    define_dataset_flag()
    flags.DEFINE_list(
        "data_dir",
        [],
        "folder of the data set; several, separated by commas, are joined into one set",
        module_name=DATA,
    )
    flags.DEFINE_string("split", None, split_help, module_name=DATA)
    flags.DEFINE_boolean(
        "download",
        True,
        "let tensorflow-datasets download the data set if it is missing; --nodownload forbids it",
        module_name=DATA,
    )


def fetch_if_allowed(dataset: str, data_dirs: Sequence[str]) -> None:
    """Downloads a missing data set through tensorflow-datasets, unless `--nodownload` forbids it."""
    if FLAGS.download:
        from lci_tf import data

        data.fetch(dataset, data_dirs)


def define_data_flags(split_help: str = "split of the data set; by default the one for pre-training") -> None:
    """The source flags, with `--seed` and `--max_bad_images` for commands that draw at random or skip bad images."""
    define_source_flags(split_help)
    flags.DEFINE_integer("seed", 0, "random seed", lower_bound=0, upper_bound=2**32 - 1, module_name=DATA)
    flags.DEFINE_float(
        "max_bad_images",
        0.01,
        "how many unreadable images to tolerate: a share of the data set if below 1, else a number",
        module_name=DATA,
    )
    flags.register_validator("max_bad_images", lambda value: value >= 0, "expected 0 or more")  # also refuses nan


def define_labelled_data_flags() -> None:
    """The data flags, with `--test_split` and `--cache`, for commands that train on labelled images and test."""
    define_data_flags("split to train on; by default the one for training, or four fifths of the only one")
    flags.DEFINE_string(
        "test_split", None, "split to test on; by default the one for testing, or the remaining fifth", module_name=DATA
    )
    flags.DEFINE_boolean("cache", False, "decode the training images once and keep them in memory", module_name=DATA)


def define_label_flags() -> None:
    """Flags to train with few labels: `--label_fraction` and `--labels_per_class`; see `check_label_flags`."""
    flags.DEFINE_float(
        "label_fraction", None, "train on this share of the images of each class, above 0, up to 1", module_name=LABELS
    )
    flags.DEFINE_integer("labels_per_class", None, "train on this many images of each class", 1, module_name=LABELS)
    flags.register_validator("label_fraction", lambda v: v is None or 0 < v <= 1, "expected a share above 0, up to 1")


def check_label_flags() -> None:
    if FLAGS.label_fraction and FLAGS.labels_per_class:
        raise InputError("--label_fraction and --labels_per_class: give one of them")


def define_settings_flags(*names: str) -> None:
    """Flags for these fields of `Settings`, by default for all. A flag that is not set leaves the data set's preset."""
    if not names:
        flags.DEFINE_boolean(
            "deep_inpainter",
            None,
            "replaced by --inpainter_halvings and --discriminator_halvings; still read from old flagfiles",
            module_name="Older",
        )
    define: dict[Any, Callable] = {int: flags.DEFINE_integer, float: flags.DEFINE_float, bool: flags.DEFINE_boolean}
    for field in dataclasses.fields(Settings):
        if not names or field.name in names:
            text, group, choices = (field.metadata[key] for key in ("help", "group", "choices"))
            if choices:
                flags.DEFINE_enum(field.name, None, choices, text, module_name=group)
            else:
                define.get(field.type, flags.DEFINE_list)(field.name, None, text, module_name=group)


def define_trust_run_flag(group: str = "Networks") -> None:
    flags.DEFINE_boolean(
        "trust_run",
        False,
        "load a run even if it names code from outside lci_tf, and execute that code",
        module_name=group,
    )


def require_trust(**runs: str | None) -> None:
    """Raises `InputError` if runs or checkpoints, by flag, name code from elsewhere, unless the user trusts them."""
    if not _is_given("trust_run"):
        from lci_tf.runs import trust

        for flag, path in runs.items():
            if path:
                trust.require_known(path, f"--{flag}")


def require_own(transforms: Sequence[str]) -> None:
    """Raises `InputError` if a transformation from outside lci_tf was named by a flagfile, and not by the user.

    The run.flags of someone else's run is a flagfile too.
    """
    for name in transforms:
        if ":" in name and not _is_given("trust_run") and not _is_given("transforms", name):
            raise InputError(f"--transforms={name}: is code from outside lci_tf, named by a flagfile; "
                             "give --trust_run if you trust whoever wrote the file")  # fmt: skip


def _is_given(name, value=""):
    """Whether a flag, with this within its value, was given on the command line itself, where no file can put it."""
    is_flag = re.compile(rf"--?{name}(=(?!false$|False$|0$)|$)")
    pairs = itertools.zip_longest(sys.argv[1:], sys.argv[2:], fillvalue="")
    return any(is_flag.match(argument) and value in f"{argument} {following}" for argument, following in pairs)


def define_model_flags() -> None:
    """Flags that say which network a command evaluates; `model_from_flags` loads it."""
    group = "Networks"
    flags.DEFINE_string("run_dir", None, "run directory of lci_tf.train, or one of its checkpoints", module_name=group)
    flags.DEFINE_enum("checkpoint", "latest", ["latest", "best"], "which checkpoint of --run_dir", module_name=group)
    flags.DEFINE_string("model", None, "a SavedModel or Keras model, instead of --run_dir", module_name=group)
    flags.DEFINE_boolean(
        "trust_model",
        False,
        "load --model even if it may contain code, and execute that code: .h5, SavedModels of Keras, lambda layers",
        module_name=group,
    )
    define_trust_run_flag(group)
    flags.DEFINE_enum(
        "pixels", "-1..1", ["-1..1", "0..1", "0..255"], "range of pixel values that --model expects", module_name=group
    )
    flags.DEFINE_boolean(
        "random_init",
        False,
        "use random weights, in the network of --run_dir or else that of --backbone and --width",
        module_name=group,
    )
    flags.DEFINE_list("layers", [], "feature maps, such as conv4,conv5; by default all", module_name=group)
    define_settings_flags("backbone", "width")


def model_from_flags() -> "FeatureModel":
    """Loads the network that the flags name: a `trained.FeatureModel` with all of its layers."""
    if bool(FLAGS.run_dir) + bool(FLAGS.model) > 1:
        raise InputError("--run_dir and --model: give one of them")
    if FLAGS.model and FLAGS.random_init:
        raise InputError("--random_init: works with --run_dir or --backbone, not with --model")
    if not (FLAGS.run_dir or FLAGS.model or FLAGS.random_init):
        raise InputError("--run_dir: missing; give a run of lci_tf.train, or else --model or --random_init")
    from lci_tf.runs import trained

    if FLAGS.model:
        return trained.from_file(FLAGS.model, FLAGS.layers, FLAGS.pixels, trusted=trusts_model())
    require_trust(run_dir=FLAGS.run_dir)
    if FLAGS.random_init and not FLAGS.run_dir:
        settings = settings_from_flags()
        return trained.random(settings.backbone, settings.width, FLAGS.seed)
    for name in ("backbone", "width"):
        if FLAGS[name].value is not None:
            raise InputError(f"--{name}: only for --random_init without --run_dir, whose network has its own")
    if FLAGS.random_init:
        return trained.random_like(FLAGS.run_dir, FLAGS.seed)
    return trained.from_run(FLAGS.run_dir, FLAGS.checkpoint)


def trusts_model() -> bool:
    """Whether `--trust_model` was given, and not by a file."""
    return _is_given("trust_model")


def settings_from_flags() -> Settings:
    """The preset of `--dataset`, overridden by the flags that were set. Commands check those that they use."""
    given = {}
    for field in dataclasses.fields(Settings):
        value = FLAGS[field.name].value if field.name in FLAGS else None
        if value is not None:
            given[field.name] = tuple(value) if isinstance(value, list) else value
    if "deep_inpainter" in FLAGS and FLAGS.deep_inpainter is not None:
        given["deep_inpainter"] = FLAGS.deep_inpainter
    return presets.resolve(FLAGS.dataset, given)


def run(main: Callable[[], int | None], usage: str) -> None:
    """Parses the flags, runs a command and exits. User mistakes are reported in one line, with exit code 2.

    On SIGTERM it ends with exit code 75; see `preemption`.

    With LCI_TF_DEBUG=1 in the environment, the traceback is printed before that line.

    Args:
      main: the command; returns the exit code, None for 0.
      usage: what the command does; printed above the flags in its help.
    """
    with closed_pipe.ends_quietly():
        code = _run(f"lci_tf.{pathlib.Path(sys.argv[0]).stem}", main, usage)
    sys.exit(code or 0)


def _run(name, main, usage):
    if {"--help", "-help", "-h", "--h"} & set(sys.argv[1:]):
        print(help_text(name, usage))
        return 0
    _log_to_stderr()
    try:
        rest = FLAGS(sys.argv)[1:]
        if rest:
            raise InputError(f"unexpected argument {rest[0]!r}; flags are written --name=value (see --help)")
        with preemption.listening():
            return main()
    except preemption.Preempted as told:
        _fail(name, str(told))
        sys.stdout.flush()
        os._exit(preemption.TRY_AGAIN)  # an exit would wait for threads, and they for a disk or a server
    except flags.Error as error:
        return _fail(name, f"{' '.join(str(error).split())} (see --help)")
    except InputError as error:
        return _fail(name, str(error))
    except OSError as error:
        if isinstance(error, BrokenPipeError) and closed_pipe.is_closed():
            raise  # `ends_quietly` handles it
        return _fail(name, _in_words(error))
    except KeyboardInterrupt:
        return _fail(name, "interrupted", code=130)


def _in_words(error):
    """What an error of the operating system was about, by the flag that names the file if there is one."""
    if not error.filename:
        return str(error)
    flag = next((f"--{name}=" for name in FLAGS if FLAGS[name].value == error.filename), "")
    is_file = isinstance(error, FileExistsError)  # where a folder was to be made
    return f"{flag}{error.filename}: {'is a file; expected a folder' if is_file else error.strerror}"


def _fail(name, message, code=2):
    if os.environ.get("LCI_TF_DEBUG", "0") != "0":
        traceback.print_exc()
    print(f"{name}: {message}", file=sys.stderr)
    return code


def help_text(name: str, usage: str) -> str:
    """The text of `--help`: the usage, then the command's flags by group, each with its default."""
    lines = [f"python -m {name} [--flag=value …]", "", usage.strip()]
    for group, defined in FLAGS.flags_by_module_dict().items():
        if group.startswith("absl") or "." in group or group == sys.argv[0]:
            continue  # flags of absl itself
        lines += ["", group]
        for flag in defined:
            default = ",".join(flag.default) if isinstance(flag.default, list) else flag.default
            lines += _entry(f"--{flag.name}", flag.help + ("" if default in (None, "") else f" [{default}]"))
    lines += ["", "C is the classifier whose features are learned, F the inpainter, D the patch discriminator."]
    lines += ["", "Also"]
    lines += _entry("--flagfile", "file to read more flags from, one per line, such as those in flags/")
    return "\n".join(lines)


def _entry(flag, text) -> Sequence[str]:
    wrapped = textwrap.wrap(" ".join(text.split()), 86)
    first = f"  {flag:28s} {wrapped[0]}" if len(flag) < 28 else f"  {flag}"
    return [first] + [" " * 31 + line for line in wrapped[len(flag) < 28 :]]


class _AboveProgressBar(logging.Handler):
    """Logs to stderr without breaking a progress bar."""

    def emit(self, record):
        tqdm.write(f"lci_tf: {self.format(record)}", file=sys.stderr)


def _log_to_stderr():
    log = logging.getLogger("lci_tf")
    log.addHandler(_AboveProgressBar())
    log.setLevel(logging.INFO)
    log.propagate = False
    logging.getLogger("absl").setLevel(logging.ERROR)  # tensorflow-datasets logs every file that it looks at
