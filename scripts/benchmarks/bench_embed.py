"""lci_tf.embed from JPEGs, beside its network alone, and beside bare decoding; its memory."""

import pathlib
import tempfile

from benchmarks.measuring import (
    BATCH,
    CROP,
    compare_times,
    decoded,
    in_own_process,
    link_many,
    peak_memory,
    print_ratio,
    write_jpegs,
)

# Small images, where ResNet-34 is the limit, and AlexNet is so quick that reading and decoding weigh; a narrow
# network, with images that are decoded whole, and with large ones, where decoding is the limit.
CASES = (
    (96, "resnet34", 1.0, "network"),
    (96, "alexnet_small", 1.0, "network"),
    (180, "alexnet_small", 0.1, "decoding"),
    (480, "alexnet_small", 0.1, "decoding"),
)


def run():
    """And the memory for many images, each count in a process of its own, over links to one file."""
    ratios = {}
    with tempfile.TemporaryDirectory() as made:
        made = pathlib.Path(made)
        for side, backbone, width, compare_with in CASES:
            photos = made / f"photos_{side}"
            if not photos.is_dir():
                write_jpegs(photos, 2_000, side)
            print(f"2,000 JPEGs of {side}×{side} pixels, {backbone} of width {width:g}, crops of {CROP}", flush=True)
            export_dir = _export_untrained(made / f"{backbone}_{side}", backbone, width)
            ratio = _compare(photos, export_dir, backbone, width, compare_with, made)
            ratios[f"bare {compare_with} / embed, {backbone}, {side} pixels"] = ratio
        image = next((made / "photos_96").iterdir())
        for count in (2_000, 40_000):
            folder = link_many(image, made / str(count), count)
            in_own_process("bench_embed", "embed_all", export_dir, folder, made / f"out_{count}")
    return ratios


def _export_untrained(run_dir, backbone, width):
    from lci_tf import models
    from lci_tf.config import presets
    from lci_tf.runs import Run, checkpoints, trained
    from lci_tf.serving.export import exporting

    run = Run(run_dir)
    settings = presets.resolve("stl10", {"backbone": backbone, "width": width, "transforms": ("rot",)})
    run.begin({**vars(settings), "dataset": "stl10"})
    data = {"name": "none", "split": "none", "images": 0}
    labels = ["identity", "rot90", "rot180", "rot270"]
    run.describe({"labels": labels, "parameters": {"C": 0}, "steps": 0, "seed": 0, "data": data})
    saver = checkpoints.Checkpoints(run, {"classifier": models.classifier(backbone, 4, CROP, width=width)})
    saver.restore_latest()
    saver.save(0)
    exporting.export(trained.from_run(run.path), run.path / "export")
    return run.path / "export"


def _job(photos, export_dir, out_dir):
    from lci_tf.embedding.job import Job

    return Job(dataset="folder", split=None, data_dir=(str(photos),), model=str(export_dir), server=None,
               model_name="", deadline=60.0, features=("embedding",), format="tfrecord", out_dir=str(out_dir),
               batch_size=BATCH, in_flight=2, shard_size=10_000)  # fmt: skip


def _compare(photos, export_dir, backbone, width, compare_with, made):
    import tensorflow as tf

    from lci_tf import models
    from lci_tf.embedding import embedding

    maps = models.find_backbone(backbone).features(width=width)
    constant = tf.random.stateless_uniform([BATCH, CROP, CROP, 3], [0, 0], -1.0, 1.0)
    network = tf.function(lambda: tf.reduce_mean(maps(constant, training=False)["conv5"], [1, 2]))
    contents = [path.read_bytes() for path in sorted(photos.iterdir())]
    untuned = tf.data.Options()
    untuned.autotune.enabled = False  # at the end of the images, it would wait for the tuner
    source, predictor, work, shards = _job(photos, export_dir, made).open()

    def embed():
        with tempfile.TemporaryDirectory(dir=made) as out:
            embedding.embed(source, predictor, work, type(shards)(pathlib.Path(out), shards.shapes))

    def decode():
        for _ in decoded(contents).batch(BATCH).prefetch(2).with_options(untuned):
            pass

    bare = {
        "network": lambda: [network().numpy() for _ in range(round(len(contents) / BATCH))],
        "decoding": decode,
    }[compare_with]
    return print_ratio(compare_times({"lci_tf.embed": embed, f"bare {compare_with}": bare}, rounds=7))


def embed_all(export_dir, photos, out_dir):
    from lci_tf.embedding import embedding

    found = embedding.embed(*_job(photos, export_dir, out_dir).open())
    print(f"{found['images']:,} images: {peak_memory():,.0f} MB of resident memory at most", flush=True)
