"""No class is given away by its making: what a classifier could see of it without looking at the whole."""

import numpy as np
import pytest
import tensorflow as tf
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import KFold, cross_val_score

from lci_tf.data.sets import synthetic
from lci_tf.transforms.cut import cut, points
from lci_tf.transforms.lookup import lookup_at
from lci_tf.transforms.warp import Warp

pytestmark = pytest.mark.slow

SCENES = 1800
CROP, LARGEST_SHIFT = 64, 8.0


def draw_scenes(seed):
    return synthetic.draw(np.arange(SCENES) % 10, seed).astype(np.float32) / 127.5 - 1


@pytest.fixture(scope="module")
def scenes():
    return draw_scenes(seed=11)


def classes(scenes, crop_size, margin, tilt, once=False, largest_shift=LARGEST_SHIFT):
    """Identity and warp of the middle of the scenes, as C would see them: float32 [2, n, crop_size, crop_size, 3].

    Where they are looked up `once`, all are tilted, and a warp is composed with its cut.
    """
    size = crop_size + margin
    edge = (scenes.shape[1] - size) // 2
    warp = Warp(4, largest_shift / size, size)
    rng = np.random.default_rng(0)

    @tf.function
    def make(images, shifts, places):
        if once:
            tilted = tf.ones([len(images)], tf.bool)
            (at,) = warp.move(*points(places[1], size, crop_size, tilt, tilted), shifts)
            return tf.stack([cut(images, places[0], crop_size, tilt, tilted), lookup_at(images, *at)])
        return tf.stack(
            [cut(images, places[0], crop_size, tilt), cut(warp(images, shifts)[0], places[1], crop_size, tilt)]
        )

    batches = []
    for batch in np.split(scenes[:, edge : edge + size, edge : edge + size], SCENES // 200):
        shifts, places = rng.uniform(size=[200, *warp.draws]), rng.uniform(size=[2, 200, 4])
        batches.append(make(batch, shifts.astype(np.float32), places.astype(np.float32)).numpy())
    return np.concatenate(batches, axis=1)


def accuracy(features):
    """Of telling two classes apart by features [2, n, k]; both of a scene are learned from, or both asked for."""
    pairs = np.moveaxis(features, 0, 1).reshape([2 * features.shape[1], -1])
    labels = np.arange(len(pairs)) % 2
    trees = ExtraTreesClassifier(100, min_samples_leaf=3, random_state=0)
    return cross_val_score(trees, pairs, labels, cv=KFold(3)).mean()


def spread(values):
    """Quantiles of absolute values [..., many] → [..., 5]."""
    return np.moveaxis(np.quantile(np.abs(values), [0.05, 0.25, 0.5, 0.75, 0.95], axis=-1), 0, -1)


def ring_features(images):
    """How the outermost three pixels of each side vary, across the side and along it; [2, n, k]."""
    sides = np.stack([np.rot90(images, k, axes=(2, 3))[:, :, :3, 8:-8] for k in range(4)], axis=2)
    flat = [*sides.shape[:3], -1]
    across, along = (np.diff(sides, axis=axis).reshape(flat) for axis in (3, 4))
    features = np.concatenate([spread(across), spread(along)], axis=-1)
    features = np.concatenate([features, features[..., :5] / (features[..., 5:] + 1e-3)], axis=-1)
    together = [features.min(axis=2), features.max(axis=2)]
    return np.concatenate([features.reshape([*images.shape[:2], -1]), *together], axis=-1)


def soften(scenes):
    """Blurred so much that resampling takes nothing away that could be missed."""
    kernel = np.exp(-(np.arange(-4, 5) ** 2) / (2 * 1.5**2))
    kernel = (kernel / kernel.sum()).astype(np.float32)
    for axis in (1, 2):
        padded = np.pad(scenes, [(4, 4) if a == axis else (0, 0) for a in range(4)], mode="reflect")
        scenes = sum(w * np.take(padded, np.arange(96) + i, axis=axis) for i, w in enumerate(kernel))
    return scenes


def edge_and_inside(scenes, margin):
    """Accuracies from the ring at a cut's edge, and from the same ring of a larger cut, where it is 8 pixels inside.

    So both rings are of the same size and in the same place of the scene; only one of them is at an edge. (A ring
    further inside the same cut shows other things, balls instead of grass, by which softness is harder to see.)
    """
    noise = np.random.default_rng(1)  # hides the last digits, as a JPEG would
    results = []
    for depth in (0, 8):
        images = classes(scenes, CROP + 2 * depth, margin, tilt=0.07)[:, :, depth : depth + CROP, depth : depth + CROP]
        images = images + noise.normal(scale=0.01, size=images.shape).astype(np.float32)
        results.append(accuracy(ring_features(images)))
    return results


def test_the_margin_keeps_the_edge_from_giving_the_warp_away(scenes):
    """Softened scenes, because how sharp an image is tells more than the edge does; see the next test."""
    # Several sets of scenes, because one alone is uncertain by more than a point.
    softened = [soften(scenes), *(soften(draw_scenes(seed)) for seed in (21, 31))]
    edge, inside = np.mean([edge_and_inside(some, margin=16) for some in softened], axis=0)
    naked_edge, naked_inside = edge_and_inside(softened[0], margin=0)
    print(f"\nidentity or warp, with margin: edge {edge:.1%}, inside {inside:.1%}")
    print(f"without margin: edge {naked_edge:.1%}, inside {naked_inside:.1%}")
    assert edge < inside + 0.05
    assert naked_edge > naked_inside + 0.08


def high_pass_features(images):
    """How strongly a few 3×3 high-pass filters respond, anywhere; [2, n, k]."""
    grey = images.mean(axis=-1)
    flat = [*grey.shape[:2], -1]
    vertical, horizontal = np.diff(grey, n=2, axis=2), np.diff(grey, n=2, axis=3)
    saddle = np.diff(np.diff(grey, axis=2), axis=3)
    checks = np.diff(vertical, n=2, axis=3)
    return np.concatenate([spread(f.reshape(flat)) for f in (vertical, horizontal, saddle, checks)], axis=-1)


def test_what_margin_and_tilt_take_away(scenes):
    """Of telling identity from warp by nothing but sharpness."""
    table = {
        (margin, tilt): accuracy(high_pass_features(classes(scenes, CROP, margin, tilt)))
        for margin in (0, 16)
        for tilt in (0, 0.07)
    }
    print("\nidentity or warp, by 3×3 filters")
    for (margin, tilt), value in table.items():
        print(f"  margin {margin:2d}, tilt {tilt:4.2f}: {value:.1%}")
    # Both help, and neither is enough: of sharp, once and twice resampled images only those resampled once are of
    # either class, so that sharpness alone could be right for seven in eight.
    for margin in (0, 16):
        assert table[margin, 0.07] < table[margin, 0] - 0.02
    assert table[16, 0.07] < table[0, 0.07] - 0.01


def test_looked_up_once_a_warp_is_no_softer(scenes):
    """By a warp of at most a pixel, which moves nothing that could be seen, but resamples like any other.

    A strong warp of rendered scenes is told even so: by stretched textures, which are part of what it is.
    """
    found = {}
    for once in (False, True):
        images = classes(scenes, CROP, 16, 0.07, once, largest_shift=1.0)
        noise = np.random.default_rng(1).normal(scale=0.02, size=images.shape)  # hides the last digits, as a JPEG would
        found[once] = accuracy(high_pass_features(images + noise.astype(np.float32)))
    print(f"\na warp of a pixel, by 3×3 filters: {found[False]:.1%}, looked up once {found[True]:.1%}")
    assert found[False] > 0.7
    assert found[True] < 0.55
