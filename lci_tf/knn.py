"""Tells what features are worth by the nearest neighbours of images: accuracy for several k, or a picture of them.

By default every image of a labelled set is classified by all others (leave one out), as the paper does with the
validation images of Places. --retrieve=8 or --queries=FILE,FILE shows images and their neighbours, labelled or not."""

import pathlib

from absl import flags

from lci_tf import cli
from lci_tf.errors import InputError

_NEIGHBOURS, _PICTURE, _OUTPUT = "Neighbours", "Retrieval", "Output"

cli.define_data_flags(split_help="which part; by default the one to test with, and for --train_test that to train on")
cli.define_model_flags()
flags.DEFINE_string(
    "compare", None,
    "a second network beside it: a run, a checkpoint, a SavedModel or Keras model (--pixels holds for it); or random",
    module_name="Network",
)  # fmt: skip
flags.DEFINE_string("compare_layer", None, "which feature map of it; by default as --layers", module_name="Network")
cli.FLAGS["layers"].help = "which feature maps; by default conv5, or the last"
flags.DEFINE_list("k", ["1", "5", "10", "20", "50", "100"], "how many neighbours vote", module_name=_NEIGHBOURS)
flags.DEFINE_boolean(
    "train_test", False, "classify test images by training images, instead of each by all others",
    module_name=_NEIGHBOURS,
)  # fmt: skip
flags.DEFINE_string("test_split", None, "which part to test with, for --train_test", module_name=_NEIGHBOURS)
flags.DEFINE_enum(
    "crops", None, ["centre", "five", "ten"], "whose features are joined [five; for pictures the centre]",
    module_name=_NEIGHBOURS,
)  # fmt: skip
flags.DEFINE_integer("crop_size", None, "side of a crop in pixels [as in pre-training]", 8, module_name=_NEIGHBOURS)
flags.DEFINE_integer("resize", None, "short side before a crop is cut [likewise]", 8, module_name=_NEIGHBOURS)
flags.DEFINE_boolean("faiss", False, "search by faiss, which needs all features in memory", module_name=_NEIGHBOURS)
flags.DEFINE_integer("retrieve", None, "show so many images, chosen at random", lower_bound=1, module_name=_PICTURE)
flags.DEFINE_list("queries", [], "show these: paths, ends of paths, or numbers in the data set", module_name=_PICTURE)
flags.DEFINE_integer("neighbours", 8, "of each that is shown", lower_bound=1, module_name=_PICTURE)
flags.DEFINE_string("out_dir", None, "where the results go [RUN_DIR/knn/NAME, or knn/NAME]", module_name=_OUTPUT)
flags.DEFINE_integer("batch_size", 32, "images at a time", lower_bound=1, module_name=_OUTPUT)


def main():
    flag = cli.FLAGS
    ks = _check(flag)
    import tensorflow as tf

    from lci_tf.evaluation.neighbours import faiss_search

    if flag.faiss:
        faiss_search.require()
    tf.config.experimental.enable_tensor_float_32_execution(False)  # whose similarities would have three digits
    networks = _networks(flag)
    if flag.retrieve or flag.queries:
        return _retrieve(flag, networks)
    return _measure(flag, networks, ks)


def _check(flag):
    """What can be told before anything is opened. Returns the numbers of neighbours."""
    if flag.test_split and not flag.train_test:
        raise InputError("--test_split: is for --train_test; give --split for a set whose images classify each other")
    if flag.retrieve and flag.queries:
        raise InputError("--retrieve and --queries: give one of them")
    if (flag.retrieve or flag.queries) and flag.train_test:
        raise InputError("--train_test: is for accuracies; --retrieve and --queries show the neighbours in one set")
    if (flag.retrieve or flag.queries) and len(flag.layers) > 1:
        raise InputError(f"--layers={','.join(flag.layers)}: --retrieve and --queries show the neighbours in one layer")
    if flag.compare_layer and not flag.compare:
        raise InputError("--compare_layer: of which network? Give --compare")
    try:
        ks = sorted({int(k) for k in flag.k})
    except ValueError:
        ks = []
    if not ks or ks[0] < 1:
        raise InputError(f"--k={','.join(flag.k)}: expected numbers of neighbours, such as 1,5,20")
    return ks


def _networks(flag):
    """The network that is looked at, and the one beside it if there is any."""
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
    place = pathlib.Path(flag.compare.removesuffix(".index")).expanduser()
    if (place / "run.flags").is_file() or pathlib.Path(f"{place}.index").is_file():
        return trained.from_run(flag.compare, flag.checkpoint, "--compare")
    return trained.from_file(flag.compare, layers, flag.pixels, "--compare", layers_flag)


def _default_layer(model):
    return "conv5" if "conv5" in model.layers else model.layers[-1]


def _name(origin):
    if "random" in origin:
        return "random"
    if "run" in origin:
        return f"{pathlib.Path(origin['run']).name}, step {origin['step']}"
    return pathlib.Path(origin["model"]).stem


def _crops(flag, model):
    """As in pre-training, or else as the data set's preset has it."""
    from lci_tf.data.pipeline import Crops

    preset = cli.settings_from_flags()
    size = flag.crop_size or model.crop_size or preset.crop_size
    share = model.resize / model.crop_size if model.resize else preset.resize / preset.crop_size
    resize = flag.resize or round(size * share)
    if resize < size:
        raise InputError(f"--resize={resize}: smaller than the crop of {size} pixels")
    return Crops(size, resize)


def _folder(flag, network, *sources):
    origin = network.model.origin
    which = "random" if "random" in origin else f"step-{origin['step']}" if "step" in origin else "model"
    parts = [flag.dataset.replace("/", "_").replace(":", "_"), *dict.fromkeys(s.split for s in sources), which]
    return pathlib.Path(flag.out_dir or pathlib.Path(origin.get("run", "")) / "knn" / "_".join(parts)).expanduser()


def _protocol(flag, views, folder):
    from lci_tf.evaluation.neighbours.knn_evaluation import Protocol

    return Protocol(flag.crops or views, flag.faiss, flag.seed, flag.batch_size, flag.max_bad_images, folder)


def _measure(flag, networks, ks):
    """Accuracies on the screen, in a file and in a figure."""
    from lci_tf.data import labelled
    from lci_tf.evaluation.neighbours import knn_evaluation
    from lci_tf.plotting import plots

    if flag.train_test:
        train, test = labelled.open_labelled(
            flag.dataset, flag.data_dir, train_split=flag.split, test_split=flag.test_split
        )
    else:
        train, test = labelled.open_one(flag.dataset, flag.data_dir, flag.split), None
    sources = [train, test] if test else [train]
    folder = _folder(flag, networks[0], *sources)
    protocol = _protocol(flag, "five", folder)
    lines, described = {}, []
    for network in networks:
        accuracies, counts = knn_evaluation.evaluate(network, train, test, protocol, ks)
        described.append({**network.described(), "accuracy": accuracies})
        lines |= {f"{network.name}, {layer}": by_k for layer, by_k in accuracies.items()}
    method = "train and test" if test else "leave one out"
    counted = [{"split": source.split, "images": count} for source, count in zip(sources, counts, strict=True)]
    _keep(folder / "results.json", {
        "protocol": {"method": method, "k": ks, **protocol.described()},
        "networks": described,
        "data": {"dataset": flag.dataset, "classes": len(train.label_names), "sets": counted},
        "seed": flag.seed,
    })  # fmt: skip
    plots.save(plots.knn_accuracy(lines, chance=1 / len(train.label_names)), folder / "accuracy.png")
    sets = ", ".join(f"{c['images']:,} images of {train.name} {c['split']}" for c in counted)
    print(f"Nearest neighbours, {method}, {sets}: percent right")
    width = max(map(len, lines))
    print(f"  {'k':{width}s}" + "".join(f"{k:8d}" for k in ks))
    for name, by_k in lines.items():
        print(f"  {name:{width}s}" + "".join(f"{100 * by_k[k]:8.1f}" for k in ks))
    print(f"Results    {folder / 'results.json'}")
    print(f"Figure     {folder / 'accuracy.png'}")


def _retrieve(flag, networks):
    """A picture of images and their neighbours, and a file that names them."""
    from lci_tf.data import labelled
    from lci_tf.evaluation.neighbours import exact_search as knn
    from lci_tf.evaluation.neighbours import faiss_search, knn_evaluation, retrieval
    from lci_tf.plotting import pictures

    source = labelled.open_any(flag.dataset, flag.data_dir, flag.split)
    folder = _folder(flag, networks[0], source)
    protocol = _protocol(flag, "centre", folder)
    queries = retrieval.choose_queries(source, flag.queries)
    if source.count:
        retrieval.check_enough(source, source.count, flag.retrieve, flag.neighbours)
    retrieved = {}
    for network in networks:
        knn_evaluation.settle(network, source, protocol)
        found = knn_evaluation.features_of(network, source, protocol)
        retrieval.check_enough(source, len(found.numbers), flag.retrieve, flag.neighbours)
        queries = queries or retrieval.random_queries(found.numbers, flag.retrieve, flag.seed)
        (features,) = found.layers.values()
        knn.normalise(features)
        search = faiss_search.nearest if flag.faiss else knn.nearest
        retrieved[network.name] = retrieval.retrieve(found, features, queries, flag.neighbours, search)
    pictures.save(folder / "retrieval.png", retrieval.picture(source, queries, retrieved))
    _keep(folder / "retrieval.json", {
        "protocol": {"neighbours": flag.neighbours, **protocol.described()},
        "networks": [{**n.described(), "layer": n.model.layers[0]} for n in networks],
        "data": {"dataset": flag.dataset, "split": source.split, "images": len(found.numbers)},
        "seed": flag.seed,
        "queries": retrieval.described(source, queries, retrieved),
    })  # fmt: skip
    for name, of in retrieved.items():
        if of.is_right is not None:
            print(f"{name}: {of.is_right.mean():.0%} of the neighbours shown are of the query's class (green frames)")
    print(f"Picture    {folder / 'retrieval.png'}")
    print(f"Results    {folder / 'retrieval.json'}")


def _keep(path, results):
    import json

    from lci_tf import files
    from lci_tf.runs import run as runs

    files.replace_file(path, json.dumps({**results, "versions": runs.versions()}, indent=2) + "\n")


if __name__ == "__main__":
    cli.run(main, __doc__)
