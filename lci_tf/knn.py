"""Evaluates features by nearest neighbours: classification accuracy for several k, or a picture of the neighbours.

By default, each image of a labelled set is classified by all the others (leave one out), as the paper does with the
validation images of Places. --retrieve=8 or --queries=FILE,FILE shows images and their neighbours, labelled or not."""

import dataclasses
import pathlib

from absl import flags

from lci_tf import cli
from lci_tf.errors import InputError

_NEIGHBOURS, _PICTURE, _OUTPUT = "Neighbours", "Retrieval", "Output"

cli.define_data_flags(
    split_help="split of the data set; by default the one for testing, or with --train_test the one for training"
)
cli.define_model_flags()
flags.DEFINE_string(
    "compare", None,
    "a second network to compare: a run, a checkpoint, a SavedModel or Keras model (with --pixels); or random",
    module_name="Networks",
)  # fmt: skip
flags.DEFINE_string("compare_layer", None, "feature map of --compare; by default as --layers", module_name="Networks")
cli.FLAGS["layers"].help = "feature maps, such as conv4,conv5; by default conv5, or else the last"
flags.DEFINE_list("k", ["1", "5", "10", "20", "50", "100"], "numbers of neighbours that vote", module_name=_NEIGHBOURS)
flags.DEFINE_boolean(
    "train_test", False, "classify test images by neighbours among training images, not each image by all others",
    module_name=_NEIGHBOURS,
)  # fmt: skip
flags.DEFINE_string("test_split", None, "with --train_test: split to test on", module_name=_NEIGHBOURS)
flags.DEFINE_enum(
    "crops", None, ["centre", "five", "ten"], "crops of an image whose features are joined [five; centre for pictures]",
    module_name=_NEIGHBOURS,
)  # fmt: skip
flags.DEFINE_integer("crop_size", None, "side of a crop in pixels [as in pre-training]", 8, module_name=_NEIGHBOURS)
flags.DEFINE_integer(
    "resize", None, "short side of images before cropping, in pixels [as in pre-training]", 8, module_name=_NEIGHBOURS
)
flags.DEFINE_boolean("faiss", False, "search with faiss, which needs all features in memory", module_name=_NEIGHBOURS)
flags.DEFINE_integer(
    "retrieve",
    None,
    "show this many images, chosen at random, with their neighbours",
    lower_bound=1,
    module_name=_PICTURE,
)
flags.DEFINE_list(
    "queries",
    [],
    "show these images with their neighbours: paths, ends of paths, or indices in the data set",
    module_name=_PICTURE,
)
flags.DEFINE_integer(
    "neighbours", 8, "number of neighbours to show for each image", lower_bound=1, module_name=_PICTURE
)
flags.DEFINE_string(
    "out_dir",
    None,
    "folder for the results [RUN_DIR/knn/NAME, or runs/NETWORK/knn/NAME without a run]",
    module_name=_OUTPUT,
)
flags.DEFINE_integer("batch_size", 32, "images per batch", lower_bound=1, module_name=_OUTPUT)


def main() -> int | None:
    flag = cli.FLAGS
    ks = _check(flag)
    import tensorflow as tf

    from lci_tf.evaluation.neighbours import faiss_search

    if flag.faiss:
        faiss_search.require()
    tf.config.experimental.enable_tensor_float_32_execution(
        False
    )  # its similarities would be exact to three digits only
    networks = _networks(flag)
    cli.fetch_if_allowed(flag.dataset, flag.data_dir)
    if flag.retrieve or flag.queries:
        return _retrieve(flag, networks)
    return _measure(flag, networks, ks)


def _check(flag):
    """Refuses flags that do not go together, before anything is opened. Returns the values of k, sorted."""
    if flag.test_split and not flag.train_test:
        raise InputError("--test_split: only for --train_test; for leave-one-out, give --split")
    if flag.retrieve and flag.queries:
        raise InputError("--retrieve and --queries: give one of them")
    if (flag.retrieve or flag.queries) and flag.train_test:
        raise InputError("--train_test: measures accuracy; --retrieve and --queries show neighbours within one set")
    if (flag.retrieve or flag.queries) and len(flag.layers) > 1:
        raise InputError(
            f"--layers={','.join(flag.layers)}: --retrieve and --queries show neighbours in a single layer; give one"
        )
    if flag.compare_layer and not flag.compare:
        raise InputError("--compare_layer: needs --compare too")
    try:
        ks = sorted({int(k) for k in flag.k})
    except ValueError:
        ks = []
    if not ks or ks[0] < 1:
        raise InputError(f"--k={','.join(flag.k)}: expected numbers of neighbours, such as 1,5,20")
    return ks


def _networks(flag):
    """The network to evaluate, and the one to compare it with, if any."""
    from lci_tf.evaluation.neighbours.knn_evaluation import Network

    first = cli.model_from_flags()
    chosen = [first.only(flag.layers or [_default_layer(first)])]
    if flag.compare:
        named = ([flag.compare_layer], "--compare_layer") if flag.compare_layer else (flag.layers, "--layers")
        second = _second(flag, *named)
        chosen.append(second.only(named[0] or [_default_layer(second)], named[1]))
    names = [_name(model.origin) for model in chosen]
    if len(set(names)) < len(names):
        names[1] += " (compared)"
    return [Network(name, model, _crops(flag, model)) for name, model in zip(names, chosen, strict=True)]


def _second(flag, layers, layers_flag):
    from lci_tf.runs import trained

    if flag.compare == "random":
        if flag.run_dir:
            return trained.random_like(flag.run_dir, flag.seed)
        settings = cli.settings_from_flags()
        return trained.random(settings.backbone, settings.width, flag.seed)
    cli.require_trust(compare=flag.compare)
    path = pathlib.Path(flag.compare.removesuffix(".index")).expanduser()
    if (path / "run.flags").is_file() or pathlib.Path(f"{path}.index").is_file():
        return trained.from_run(flag.compare, flag.checkpoint, "--compare")
    return trained.from_file(flag.compare, layers, flag.pixels, "--compare", layers_flag, cli.trusts_model())


def _default_layer(model):
    return "conv5" if "conv5" in model.layers else model.layers[-1]


def _name(origin):
    if "random" in origin:
        return "random"
    if "run" in origin:
        return f"{pathlib.Path(origin['run']).name}, step {origin['step']}"
    return pathlib.Path(origin["model"]).stem


def _crops(flag, model):
    """The crops that the flags ask for; by default those of pre-training, or else those of the data set's preset."""
    from lci_tf.data.pipeline import Crops

    preset = cli.settings_from_flags()
    size = flag.crop_size or model.crop_size or preset.crop_size
    share = model.resize / model.crop_size if model.resize else preset.resize / preset.crop_size
    resize = flag.resize or round(size * share)
    if resize < size:
        raise InputError(f"--resize={resize}: smaller than the crop of {size} pixels")
    return Crops(size, resize)


def _begin(flag, networks, sources, views, **protocol):
    """The protocol of the search, and all that the results depend on. Creates the folder for these results."""
    from lci_tf.evaluation.neighbours.knn_evaluation import KnnProtocol
    from lci_tf.runs import provenance, results_folder

    found_by = KnnProtocol(
        flag.crops or views, flag.faiss, flag.seed, flag.batch_size, flag.max_bad_images, pathlib.Path()
    )
    asked = provenance.question(
        protocol={**protocol, **found_by.described()},
        networks=[provenance.of_network(network.described()) for network in networks],
        data={"dataset": flag.dataset, "sets": [provenance.of_images(source) for source in sources]},
        seed=flag.seed,
    )
    names = [flag.dataset.replace("/", "_").replace(":", "_"), *dict.fromkeys(source.split for source in sources)]
    default = results_folder.default("knn", names, networks[0].model.origin, asked)
    folder = pathlib.Path(flag.out_dir or default).expanduser()
    results_folder.begin(folder, asked, "search for neighbours")
    return dataclasses.replace(found_by, folder=folder), asked


def _measure(flag, networks, ks):
    """Measures accuracies; prints them, keeps them in a file, and plots them."""
    from lci_tf.data import labelled
    from lci_tf.evaluation.neighbours import knn_evaluation
    from lci_tf.plotting import plots
    from lci_tf.runs import provenance

    if flag.train_test:
        train, test = labelled.open_labelled(
            flag.dataset, flag.data_dir, train_split=flag.split, test_split=flag.test_split
        )
    else:
        train, test = labelled.open_one(flag.dataset, flag.data_dir, flag.split), None
    sources = [train, test] if test else [train]
    method = "train and test" if test else "leave one out"
    protocol, asked = _begin(flag, networks, sources, "five", method=method, k=ks)
    folder = protocol.folder
    lines: dict[str, dict[int, float]] = {}
    described = []
    for network in networks:
        accuracies, counts = knn_evaluation.evaluate(network, train, test, protocol, ks)
        described.append({**network.described(), "accuracy": accuracies})
        lines |= {f"{network.name}, {layer}": by_k for layer, by_k in accuracies.items()}
    # Only images that can be read and have a class count.
    counted = [{**part, "images": count} for part, count in zip(asked["data"]["sets"], counts, strict=True)]
    data = {**asked["data"], "classes": len(train.label_names), "sets": counted}
    _keep(folder / "results.json", {**asked, "networks": described, "data": data})
    plots.save(plots.knn_accuracy(lines, chance=1 / len(train.label_names)), folder / "accuracy.png")
    sets = ", ".join(f"{c['images']:,} images of {train.name} {c['split']}" for c in counted)
    print(f"Nearest neighbours, {method}, {sets}: accuracy in percent")
    width = max(map(len, lines))
    print(f"  {'k':{width}s}" + "".join(f"{k:8d}" for k in ks))
    for name, by_k in lines.items():
        print(f"  {name:{width}s}" + "".join(f"{100 * by_k[k]:8.1f}" for k in ks))
    print(f"Inputs     {provenance.line(asked)}")
    print(f"Results    {folder / 'results.json'}")
    print(f"Figure     {folder / 'accuracy.png'}")


def _retrieve(flag, networks):
    """Draws images with their neighbours, and lists them in a file."""
    from lci_tf.data import labelled
    from lci_tf.evaluation.neighbours import exact_search, faiss_search, knn_evaluation, retrieval
    from lci_tf.plotting import pictures
    from lci_tf.runs import provenance

    source = labelled.open_any(flag.dataset, flag.data_dir, flag.split)
    queries = retrieval.choose_queries(source, flag.queries)
    if source.count:
        retrieval.check_enough(source, source.count, flag.retrieve, flag.neighbours)
    protocol, asked = _begin(flag, networks, [source], "centre", neighbours=flag.neighbours, retrieve=flag.retrieve,
                             queries=flag.queries)  # fmt: skip
    folder = protocol.folder
    retrieved = {}
    for network in networks:
        knn_evaluation.calibrate_batch_norm(network, source, protocol)
        found = knn_evaluation.features_of(network, source, protocol)
        retrieval.check_enough(source, len(found.numbers), flag.retrieve, flag.neighbours)
        queries = queries or retrieval.random_queries(found.numbers, flag.retrieve, flag.seed)
        (features,) = found.layers.values()
        exact_search.normalise(features)
        search = faiss_search.nearest if flag.faiss else exact_search.nearest
        retrieved[network.name] = retrieval.retrieve(found, features, queries, flag.neighbours, search)
    pictures.save(folder / "retrieval.png", retrieval.picture(source, queries, retrieved))
    _keep(folder / "retrieval.json", {
        **asked,
        "networks": [n.described() for n in networks],
        "queries": retrieval.described(source, queries, retrieved),
    })  # fmt: skip
    for name, result in retrieved.items():
        if result.is_right is not None:
            print(
                f"{name}: {result.is_right.mean():.0%} of the neighbours shown are of the query's class (green frames)"
            )
    print(f"Picture    {folder / 'retrieval.png'}")
    print(f"Inputs     {provenance.line(asked)}")
    print(f"Results    {folder / 'retrieval.json'}")


def _keep(path, results):
    import json

    from lci_tf import files, runs

    files.replace_file(path, json.dumps({**results, "versions": runs.versions()}, indent=2) + "\n")


if __name__ == "__main__":
    cli.run(main, __doc__)
