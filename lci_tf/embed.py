"""Makes features of many images, by an export in this process or by TF Serving, and searches among them.

There is a row for every image, in the order of the data set; what cannot be read is listed beside. Started again with
the same --out_dir, it goes on where it was left."""

import pathlib
import shlex

from absl import flags

from lci_tf import cli, files, quiet_import
from lci_tf.errors import InputError

_MODEL, _WORK, _SEARCH = "Model", "Work", "Search"

cli.define_source_flags()
flags.DEFINE_string("model", None, "an export of lci_tf.export, or a version of one", module_name=_MODEL)
flags.DEFINE_string(
    "server", None, "HOST:PORT of TF Serving (gRPC), or http://HOST:PORT, instead of --model", module_name=_MODEL
)
flags.DEFINE_string("model_name", "features", "what the server calls the model", module_name=_MODEL)
flags.DEFINE_float("deadline", 60.0, "seconds that a request may take", module_name=_MODEL)
flags.DEFINE_list("features", ["embedding"], "which of the model's outputs", module_name=_MODEL)
flags.DEFINE_string("out_dir", None, "where the features go", module_name=_WORK)
flags.DEFINE_enum("format", "tfrecord", ["tfrecord", "npy"], "TFRecord shards, or an array", module_name=_WORK)
flags.DEFINE_integer("batch_size", 64, "images in a request", lower_bound=1, module_name=_WORK)
flags.DEFINE_integer("in_flight", 2, "requests under way at once", lower_bound=1, module_name=_WORK)
flags.DEFINE_integer(
    "shard_size", 10_000, "images in a shard; a whole one is not lost if it is killed", lower_bound=1, module_name=_WORK
)
flags.DEFINE_string(
    "runner",
    None,
    "have Apache Beam share out the shards: DirectRunner (this machine), DataflowRunner, FlinkRunner, SparkRunner",
    module_name=_WORK,
)
flags.DEFINE_string(
    "runner_options",
    None,
    "flags of that runner, such as '--direct_num_workers=4 --direct_running_mode=multi_processing'",
    module_name=_WORK,
)
flags.DEFINE_list(
    "search",
    [],
    "image files: shows their neighbours among the features in --out_dir, made before",
    module_name=_SEARCH,
)
flags.DEFINE_integer("neighbours", 8, "of each", lower_bound=1, module_name=_SEARCH)

_JOB = ("dataset", "split", "data_dir", "model", "server", "model_name", "deadline", "features", "format", "out_dir",
        "batch_size", "in_flight", "shard_size")  # fmt: skip


def main():
    flag = cli.FLAGS
    if not flag.out_dir:
        raise InputError("--out_dir: where are the features to go?")
    if bool(flag.model) == bool(flag.server):
        raise InputError("--model or --server: give one of them")
    if flag.runner_options and not flag.runner:
        raise InputError("--runner_options: goes with --runner")
    if files.is_bucket(flag.out_dir) and (flag.search or flag.format == "npy"):
        what = "--search: looks" if flag.search else "--format=npy: goes"
        raise InputError(f"{what} into a folder, and not into {flag.out_dir}")
    values = {name: flag[name].value for name in _JOB}
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    import tensorflow as tf

    from lci_tf.embedding import embedding, shards
    from lci_tf.embedding.job import Job

    job = Job(**plain)
    if flag.search:
        return _search(flag, job)
    try:
        found = _by_beam(flag, job) if flag.runner else embedding.embed(*job.open())
    except tf.errors.OpError as error:
        if any(files.is_bucket(path) for path in [*job.data_dir, job.out_dir]):  # nobody may be allowed to write there
            raise InputError(str(error).splitlines()[0]) from error
        raise
    print(f"Features of {found['images']:,} images are in {flag.out_dir}")
    if found["unreadable"]:
        where = files.place(flag.out_dir) / shards.BAD_IMAGES
        print(f"{found['unreadable']:,} could not be read and have zeros; they are listed in {where}")


def _by_beam(flag, job):
    quiet_import.install("apache_beam")  # which misses what few have
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
        raise InputError(f"--search={flag.search[error.positions[0]]}: is no image that can be read") from None
    found = search.nearest(folder, queries, flag.neighbours, feature)
    for path, paths, similarities in zip(flag.search, found.paths, found.similarity, strict=True):
        print(path)
        for neighbour, similarity in zip(paths, similarities, strict=True):
            print(f"  {similarity:.3f}  {neighbour}")
    pictures.save(folder / "search.png", search.picture(flag.search, found))
    print(f"Picture    {folder / 'search.png'}")


if __name__ == "__main__":
    cli.run(main, __doc__)
