"""Computes features of many images, with an export in this process or with TF Serving, and searches them.

There is one row per image, in the order of the data set; unreadable images are listed in a file. Started again with
the same --out_dir, it resumes where it stopped."""

import pathlib
import shlex
from typing import Any

from absl import flags

from lci_tf import cli, files, quiet_import
from lci_tf.errors import InputError

_MODEL, _WORK, _SEARCH = "Model", "Work", "Search"

cli.define_source_flags()
flags.DEFINE_string("model", None, "export of lci_tf.export, or one of its versions", module_name=_MODEL)
flags.DEFINE_string(
    "server", None, "HOST:PORT (gRPC) or http://HOST:PORT (REST) of TF Serving, instead of --model", module_name=_MODEL
)
flags.DEFINE_string("model_name", "features", "name of the model on the server", module_name=_MODEL)
flags.DEFINE_float(
    "deadline", 60.0, "time limit of a request and its repetitions when the server is busy or away, in seconds",
    module_name=_MODEL,
)  # fmt: skip
flags.register_validator("deadline", lambda seconds: 0 < seconds < float("inf"), "expected more than 0 seconds")
flags.DEFINE_list("features", ["embedding"], "outputs of the model to compute", module_name=_MODEL)
flags.DEFINE_string("out_dir", None, "folder for the features", module_name=_WORK)
flags.DEFINE_enum(
    "format", "tfrecord", ["tfrecord", "npy"], "write TFRecord shards or a NumPy array", module_name=_WORK
)
flags.DEFINE_integer("batch_size", 64, "images per request", lower_bound=1, module_name=_WORK)
flags.DEFINE_integer("in_flight", 2, "number of concurrent requests", lower_bound=1, module_name=_WORK)
flags.DEFINE_integer(
    "shard_size", 10_000, "images per shard; finished shards survive an interruption", lower_bound=1, module_name=_WORK
)
flags.DEFINE_string(
    "runner",
    None,
    "distribute the shards with Apache Beam: DirectRunner (this machine), DaskRunner (your own machines), "
    "DataflowRunner; see docs/scale.md",
    module_name=_WORK,
)
flags.DEFINE_string(
    "runner_options",
    None,
    "flags of the Beam runner, such as '--direct_num_workers=4 --direct_running_mode=multi_processing'",
    module_name=_WORK,
)
flags.DEFINE_list(
    "search",
    [],
    "image files to find neighbours of, among the features that --format=npy wrote to --out_dir earlier",
    module_name=_SEARCH,
)
flags.DEFINE_integer(
    "neighbours", 8, "number of neighbours to show for each file of --search", lower_bound=1, module_name=_SEARCH
)

_JOB = ("dataset", "split", "data_dir", "model", "server", "model_name", "deadline", "features", "format", "out_dir",
        "batch_size", "in_flight", "shard_size")  # fmt: skip


def main() -> None:
    flag = cli.FLAGS
    if not flag.out_dir:
        raise InputError("--out_dir: missing; give a folder for the features")
    if bool(flag.model) == bool(flag.server):
        raise InputError("--model or --server: give one of them")
    if flag.runner_options and not flag.runner:
        raise InputError("--runner_options: needs --runner too")
    if files.is_bucket(flag.out_dir) and (flag.search or flag.format == "npy"):
        what = "--search: reads" if flag.search else "--format=npy: is written to"
        raise InputError(f"{what} a local folder, not {flag.out_dir}")
    values = {name: flag[name].value for name in _JOB}
    plain: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    import tensorflow as tf

    from lci_tf.embedding import embedding, shards
    from lci_tf.embedding.job import Job

    job = Job(**plain)
    if flag.search:
        return _search(flag, job)
    cli.fetch_if_allowed(flag.dataset, flag.data_dir)
    try:
        found = _by_beam(flag, job) if flag.runner else embedding.embed(*job.open())
    except tf.errors.OpError as error:
        if any(
            files.is_bucket(path) for path in [*job.data_dir, job.out_dir]
        ):  # such as a lack of permission to write there
            raise InputError(str(error).splitlines()[0]) from error
        raise
    print(f"Features of {found['images']:,} images are in {flag.out_dir}")
    if found["unreadable"]:
        where = files.as_path(flag.out_dir) / shards.BAD_IMAGES
        print(f"{found['unreadable']:,} could not be read; their features are zeros, and they are listed in {where}")


def _by_beam(flag, job):
    quiet_import.install("apache_beam")  # it warns about optional packages
    try:
        import apache_beam  # noqa: F401
    except ImportError:
        raise InputError("--runner: Apache Beam is not installed; pip install 'lci_tf[beam]'") from None
    from lci_tf.embedding import beam_pipeline

    try:
        options = shlex.split(flag.runner_options or "")
    except ValueError as error:
        raise InputError(f"--runner_options: {error}") from None
    return beam_pipeline.embed(job, flag.runner, options)


def _search(flag, job):
    from lci_tf.embedding import search
    from lci_tf.plotting import pictures
    from lci_tf.serving.unreadable import UnreadableImages

    folder = pathlib.Path(flag.out_dir).expanduser()
    (feature,) = flag.features if len(flag.features) == 1 else ("embedding",)
    predictor, _ = job.predictor()
    try:
        queries = predictor.predict([search.read(path) for path in flag.search], [feature])[feature]
    except UnreadableImages as error:
        raise InputError(f"--search={flag.search[error.positions[0]]}: is not a readable image") from None
    search.check_network(folder, predictor, feature)
    found = search.nearest(folder, queries, flag.neighbours, feature)
    for path, paths, similarities in zip(flag.search, found.paths, found.similarity, strict=True):
        print(path)
        for neighbour, similarity in zip(paths, similarities, strict=True):
            print(f"  {similarity:.3f}  {neighbour}")
    if not found.are_files():
        print("Picture    none, because these images are not separate files")
        return
    pictures.save(folder / "search.png", search.picture(flag.search, found))
    print(f"Picture    {folder / 'search.png'}")


if __name__ == "__main__":
    cli.run(main, __doc__)
