"""Data sets prepared by tensorflow-datasets (tfds): streams of encoded images."""

import dataclasses
import pathlib
from collections.abc import Callable

import tensorflow as tf

from lci_tf.data.source import Row, Splits, StreamSource
from lci_tf.errors import InputError

# What to put where when there is no network, for the data sets of the paper. tfds checks their sums.
ARCHIVES = {
    "stl10": "stl10_binary.tar.gz",
    "celeb_a": "img_align_celeba.zip, list_eval_partition.txt, list_attr_celeba.txt, list_landmarks_align_celeba.txt "
    "and identity_CelebA.txt",
    "imagenet2012": "ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar",
    "places365_small": "train_256_places365standard.tar, val_256.tar and test_256.tar",
    "voc/2007": "VOCtrainval_06-Nov-2007.tar and VOCtest_06-Nov-2007.tar",
    "voc/2012": "VOCtrainval_11-May-2012.tar",
}
# Splits that come first, the best to pre-train on before the others.
PREFERRED = ("unlabelled", "train", "trainval")


def default_dir() -> pathlib.Path:
    return pathlib.Path.home() / "tensorflow_datasets"


def is_prepared(name: str, data_dir: pathlib.Path | None) -> bool:
    place = (data_dir or default_dir()) / name
    return any(place.glob("*/dataset_info.json")) or any(place.glob("*/*/dataset_info.json"))


def find(name: str, data_dir: pathlib.Path | None) -> Splits:
    """The splits of a prepared data set. Nothing is downloaded: that is `prepare`'s work."""
    place = data_dir or default_dir()
    builder = _builder(name, place)
    if not builder.is_prepared():
        archive, dataset = ARCHIVES.get(name, "its archive"), _on_command_line(name)
        raise InputError(
            f"--dataset={dataset}: not prepared in {place}; put {archive} into {place}/downloads/manual, or have "
            f"network access, and run: python -m lci_tf.check_data --dataset={dataset} --download"
            + ("" if data_dir is None else f" --data_dir={data_dir}")
        )
    splits = sorted(builder.info.splits, key=lambda s: (PREFERRED.index(s) if s in PREFERRED else len(PREFERRED), s))
    return {split: lambda split=split: _open(name, builder, split) for split in splits}


def prepare(name: str, data_dir: pathlib.Path | None) -> None:
    """Downloads and prepares the data set, from `downloads/manual` where the archives are there."""
    place = data_dir or default_dir()
    builder = _builder(name, place)
    try:
        builder.download_and_prepare(download_dir=place / "downloads")
    except Exception as error:  # the network, the disk, a checksum, tfds's own assertions on manual archives
        raise InputError(
            f"--download: tensorflow-datasets could not prepare {name} ({type(error).__name__}: "
            f"{_first_line(error)[:200]}); put {ARCHIVES.get(name, 'its archive')} into "
            f"{place}/downloads/manual and try again"
        ) from error


def _on_command_line(name):
    return name if name in ARCHIVES else f"tfds:{name}"


def _builder(name, place):
    import tensorflow_datasets as tfds

    try:
        return tfds.builder(name, data_dir=place)
    except (tfds.core.DatasetNotFoundError, ValueError, ImportError) as error:
        raise InputError(
            f"--dataset: tensorflow-datasets has no {name!r} ({_first_line(error)}); "
            "python -m lci_tf.check_data --help lists what --dataset takes"
        ) from None


def _first_line(error):
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TfdsSource(StreamSource):
    """One split. `to_row` takes tfds's example, with the image still encoded, to a row."""

    builder: object
    image_key: str
    to_row: Callable[[dict], Row]

    def stream(self):
        import tensorflow_datasets as tfds

        examples = self.builder.as_dataset(
            split=self.split, shuffle_files=False, decoders={self.image_key: tfds.decode.SkipDecoding()}
        )
        return examples.map(self.to_row, num_parallel_calls=tf.data.AUTOTUNE)


def _open(name, builder, split):
    import tensorflow_datasets as tfds

    features = builder.info.features
    image_key = next((k for k, f in features.items() if isinstance(f, tfds.features.Image)), None)
    if image_key is None:
        raise InputError(f"--dataset={_on_command_line(name)}: has no image among its features {', '.join(features)}")
    kind, names, label = _labels(features, tfds)
    if split == "unlabelled":
        kind, names, label = "none", (), None

    def to_row(example):
        row = {"image": example[image_key]}
        return row if label is None else {**row, "label": label(example)}

    return TfdsSource(
        name=_on_command_line(name),
        split=split,
        count=builder.info.splits[split].num_examples,
        label_kind=kind,
        label_names=names,
        builder=builder,
        image_key=image_key,
        to_row=to_row,
    )


def _labels(features, tfds):
    """(kind, names, how to get the label) by what tfds declares: a class, attributes (CelebA), or objects (VOC)."""
    attributes = dict(features.items()).get("attributes")
    if isinstance(attributes, tfds.features.FeaturesDict) and all(f.tf_dtype == tf.bool for f in attributes.values()):
        names = tuple(attributes)
        return "multi-label", names, lambda e: tf.cast(tf.stack([e["attributes"][n] for n in names]), tf.int8)
    if "labels_no_difficult" in features:
        names = tuple(features["labels"].feature.names)

        def present(example):
            def found(key):
                return tf.reduce_max(tf.one_hot(example[key], len(names), dtype=tf.int8), axis=0, keepdims=True)[0]

            any_object, counted = tf.maximum(found("labels"), 0), tf.maximum(found("labels_no_difficult"), 0)
            return 2 * counted - any_object  # 1 counted, -1 only difficult ones, 0 none

        return "multi-label", names, present
    classes = [k for k, f in features.items() if isinstance(f, tfds.features.ClassLabel)]
    if classes:
        key = "label" if "label" in classes else classes[0]
        return "class", tuple(features[key].names), lambda e: tf.cast(e[key], tf.int64)
    return "none", (), None
