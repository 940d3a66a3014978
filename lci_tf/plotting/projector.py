"""Writes features for TensorBoard's projector: a folder that `tensorboard --logdir` shows, with thumbnails."""

import math
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image

_LARGEST_SPRITE = 8192  # pixels along a side, the limit of browsers


def write(
    folder: pathlib.Path,
    features: Mapping[str, np.ndarray],
    thumbnails: np.ndarray,
    facts: Mapping[str, Sequence[str]],
) -> None:
    """Writes features, thumbnails, and facts about each image.

    Args:
      folder: where to write; created if missing.
      features: name, such as that of the layer -> float [n, d].
      thumbnails: uint8 [n, side, side, 3].
      facts: name -> a text for each image, such as its class or its path.
    """
    from tensorboard.plugins import projector

    folder.mkdir(parents=True, exist_ok=True)
    picture, side = sprite(thumbnails)
    Image.fromarray(picture).save(folder / "sprite.png")
    (folder / "metadata.tsv").write_text(_metadata(facts), encoding="utf-8")
    config = projector.ProjectorConfig()
    for name, values in features.items():
        np.savetxt(folder / f"{name}.tsv", values, fmt="%.6g", delimiter="\t")
        embedding = config.embeddings.add(
            tensor_name=name, tensor_path=f"{name}.tsv", tensor_shape=values.shape, metadata_path="metadata.tsv"
        )
        embedding.sprite.image_path = "sprite.png"
        embedding.sprite.single_image_dim.extend([side, side])
    projector.visualize_embeddings(str(folder), config)


def sprite(thumbnails: np.ndarray, largest: int = _LARGEST_SPRITE) -> tuple[np.ndarray, int]:
    """Joins images [n, side, side, 3] to a square picture, without gaps. Returns it and the side of an image in it."""
    count, side, *_ = thumbnails.shape
    columns = math.ceil(math.sqrt(count))
    filled = np.zeros([columns**2, side, side, 3], np.uint8)
    filled[:count] = thumbnails
    picture = filled.reshape(columns, columns, side, side, 3).swapaxes(1, 2).reshape(columns * side, columns * side, 3)
    if columns * side > largest:
        side = largest // columns
        shrunk = Image.fromarray(picture).resize([columns * side] * 2, Image.Resampling.BOX)
        picture = np.asarray(shrunk)
    return picture, side


def _metadata(facts):
    """One line per image; the projector expects a header line only if there are several columns."""
    lines = list(zip(*facts.values(), strict=True))
    if len(facts) > 1:
        lines.insert(0, tuple(facts))
    return "".join("\t".join(" ".join(text.split()) for text in line) + "\n" for line in lines)
