"""Leave-one-out neighbours, beside a bare matrix product."""

import pathlib
import tempfile
import time

from benchmarks.measuring import peak_memory

CLASSES = 205


def run(images=20_500, dimensions=5 * 9_216):
    """By default the size of the paper's: five crops' conv5 of Places205's validation set. From features on disk to
    accuracies; every few blocks, a bare product of two as large, so that whatever else the machine does falls on both.
    """
    from lci_tf.evaluation.neighbours import exact_search

    images, dimensions = int(images), int(dimensions)
    bare = _BareProducts(dimensions, exact_search.read_ahead)
    exact_search.read_ahead = bare.between
    print(f"{images:,} images with {dimensions:,} features, {4e-9 * images * dimensions:.1f} GB on disk", flush=True)
    with tempfile.TemporaryDirectory() as made:
        features, labels = _random_features(pathlib.Path(made), images, dimensions)
        start = time.perf_counter()
        exact_search.normalise(features)
        normalising = time.perf_counter() - start
        accuracies = exact_search.accuracies(exact_search.nearest_others(features, 100), labels, labels, (1, 10, 100))
        whole = time.perf_counter() - start - bare.seconds
        sides = [rows.stop - rows.start for rows in exact_search.blocks_of(features)]
    done = sum(a * b for i, a in enumerate(sides) for b in sides[i:]) * dimensions
    rate, bare_rate = done / whole, bare.done / bare.seconds
    print(f"  accuracy {', '.join(f'{a:.1%} (k = {k})' for k, a in accuracies.items())}; by chance {1 / CLASSES:.1%}")
    print(f"  {whole:.0f} s, {normalising:.0f} of them to standardise")
    print(f"  {rate / 1e9:6.1f} G multiply-adds/s, of which there are {done:.2e}: a pair of images counts once")
    print(f"  {bare_rate / 1e9:6.1f} G multiply-adds/s of bare products of blocks as large")
    print(f"  {rate / bare_rate:.0%} of the bare products' rate; as if every pair were computed twice, "
          f"{images**2 * dimensions / whole / bare_rate:.0%}")  # fmt: skip
    print(f"  {peak_memory():,.0f} MB of resident memory at most")
    return {"neighbours / bare products": rate / bare_rate}


class _BareProducts:
    """Multiplies each block that is read with itself, between two uses of blocks, and counts."""

    def __init__(self, dimensions, read_ahead):
        self._dimensions, self._read_ahead = dimensions, read_ahead
        self.done, self.seconds = 0, 0.0

    def between(self, read, items):
        import tensorflow as tf

        for item, block in self._read_ahead(read, items):
            yield item, block  # is used, and multiplied with others, until the next line
            start = time.perf_counter()
            tf.matmul(block, block, transpose_b=True).numpy()
            self.seconds += time.perf_counter() - start
            self.done += len(block) ** 2 * self._dimensions


def _random_features(folder, images, dimensions):
    import numpy as np

    from lci_tf.evaluation.feature_file import FeatureFile

    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, images)
    features = FeatureFile(folder)
    for first in range(0, images, 64):
        features.append(rng.standard_normal([min(64, images - first), dimensions], np.float32))
    return features, labels
