"""Makes features of many images, by an export in this process or by TF Serving, and searches among them.

There is a row for every image, in the order of the data set; what cannot be read is listed beside. Started again with
the same --out_dir, it goes on where it was left."""

import pathlib

from absl import flags

from lci_tf import cli
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
flags.DEFINE_list(
    "search",
    [],
    "image files: shows their neighbours among the features in --out_dir, made before",
    module_name=_SEARCH,
)
flags.DEFINE_integer("neighbours", 8, "of each", lower_bound=1, module_name=_SEARCH)


def main():
    flag = cli.FLAGS
    if not flag.out_dir:
        raise InputError("--out_dir: where are the features to go?")
    if bool(flag.model) == bool(flag.server):
        raise InputError("--model or --server: give one of them")
    if flag.search:
        return _search(flag)
    from lci_tf import data
    from lci_tf.serving import embedding, shards

    source = data.open_source(flag.dataset, flag.split, flag.data_dir)
    predictor, which = _predictor(flag)
    features = tuple(flag.features)
    for name in features:
        if name not in predictor.outputs:
            raise InputError(f"--features={name}: {which} gives {', '.join(predictor.outputs)}")
    protocol = {
        "model": which,
        "data": {"name": source.name, "split": source.split, "images": source.count, "data_dir": flag.data_dir},
        "features": list(features),
        "format": flag.format,
        "shard_size": flag.shard_size,
    }
    work = embedding.Work(features, flag.batch_size, flag.in_flight, flag.shard_size, protocol)
    folder = pathlib.Path(flag.out_dir).expanduser()
    shapes = {name: rows.shape[1:] for name, rows in predictor.predict([], features).items()}
    stored = shards.FORMATS[flag.format](folder, shapes)
    found = embedding.embed(source, predictor, work, stored)
    print(f"Features of {found['images']:,} images are in {folder}")
    if found["unreadable"]:
        print(
            f"{found['unreadable']:,} could not be read and have zeros; they are listed in {folder / shards.BAD_IMAGES}"
        )


def _search(flag):
    from lci_tf import pictures
    from lci_tf.serving import search
    from lci_tf.serving.unreadable import UnreadableImages

    folder = pathlib.Path(flag.out_dir).expanduser()
    (feature,) = flag.features if len(flag.features) == 1 else ("embedding",)
    predictor, _ = _predictor(flag)
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


def _predictor(flag):
    if flag.model:
        from lci_tf.serving.local import LocalModel

        model = LocalModel(flag.model)
        return model, str(model.folder)
    from lci_tf.serving import client

    server = client.connect(flag.server, flag.model_name, deadline=flag.deadline, in_flight=flag.in_flight)
    return server, f"{flag.server}/{flag.model_name}/{server.version}"


if __name__ == "__main__":
    cli.run(main, __doc__)
