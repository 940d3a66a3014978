"""Runs commands and code as `python -m …` and `python -c …` would, but in copies of a process that has TensorFlow.

Importing it takes longer than most commands do on a few small images. A copy is a fork: made before TensorFlow has run
anything, of which a copy would miss the threads. Reads requests as lines of JSON, [folder, words], where words are
"-m" and a module with its flags, or "-c" and code; answers with [exit code, what was said, seconds of processor time].
"""

import lci_tf  # noqa: F401, I001 (before TensorFlow, which it keeps quiet)

import contextlib
import json
import os
import runpy
import sys
import tempfile
import traceback

import matplotlib.pyplot  # noqa: F401
import sklearn.linear_model  # noqa: F401
import tensorflow as tf

from lci_tf.data.sets import synthetic

tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})  # graphs that run but twice
synthetic._COUNTS.update(train=300, test=60)  # drawing all of it takes longer than any command does


def run(folder, words):
    os.chdir(folder)
    sys.path[0] = folder
    try:
        if words[0] == "-m":
            sys.argv = words[1:]
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            exec(compile(words[1], "block", "exec"), {"__name__": "__main__"})
    except SystemExit as end:
        return end.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def in_a_fork(folder, words):
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if not child:
            code = 1
            with contextlib.suppress(BaseException):
                os.dup2(said.fileno(), 1), os.dup2(said.fileno(), 2)
                code = run(folder, words)
                sys.stdout.flush(), sys.stderr.flush()
            os._exit(code)
        _, status, usage = os.wait4(child, 0)
        said.seek(0)
        return os.waitstatus_to_exitcode(status), said.read().decode(), usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        print(json.dumps(in_a_fork(*json.loads(line))), file=answers, flush=True)
