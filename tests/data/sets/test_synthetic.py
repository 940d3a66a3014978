import numpy as np
import pytest
import tensorflow as tf

from lci_tf.data.sets import synthetic


@pytest.fixture(scope="module")
def scenes():
    """Two hundred scenes, twenty of each class."""
    return synthetic.draw(np.arange(200) % 10, seed=3)


def test_the_seed_decides(scenes):
    labels = np.arange(200) % 10
    np.testing.assert_array_equal(synthetic.draw(labels, seed=3), scenes)
    assert (synthetic.draw(labels[:20], seed=4) != scenes[:20]).mean() > 0.9


def test_a_scene_depends_on_no_other(scenes):
    np.testing.assert_array_equal(synthetic.draw(np.arange(150) % 10, seed=3), scenes[:150])


def test_scenes_are_large_and_in_colour(scenes):
    assert scenes.shape == (200, 96, 96, 3) and scenes.dtype == np.uint8
    assert scenes.std(axis=(1, 2, 3)).min() > 10
    assert np.ptp(scenes.astype(int), axis=-1).mean() > 20


def test_scenes_have_an_up_and_a_down(scenes):
    """The grass below is finer in texture than the sky above."""
    vertical = np.abs(np.diff(scenes.astype(float).mean(axis=-1), axis=2))
    assert np.median(vertical[:, 86:]) > 2 * np.median(vertical[:, :10])


def test_colour_and_amount_of_edges_do_not_tell_the_class():
    """A nearest-mean classifier on the histogram of each colour, and of edges, stays near chance."""
    labels = np.arange(2000) % 10
    images = synthetic.draw(labels, seed=5).astype(np.float32)
    edges = np.abs(np.diff(images.mean(axis=-1), axis=1))

    def histogram(values):
        return np.histogram(values, bins=16, range=(0, 256))[0]

    features = np.stack(
        [
            np.concatenate([*map(histogram, image.transpose(2, 0, 1)), histogram(edge)])
            for image, edge in zip(images, edges, strict=True)
        ]
    )
    features = (features - features.mean(axis=0)) / (features.std(axis=0) + 1e-6)
    means = np.stack([features[:1000][labels[:1000] == k].mean(axis=0) for k in range(10)])
    guesses = np.argmin(((features[1000:, None] - means) ** 2).sum(axis=-1), axis=1)
    assert (guesses == labels[1000:]).mean() < 0.2


def test_splits_are_balanced_and_different():
    splits = synthetic.find(None)
    train, test = splits["train"](), splits["test"]()
    assert (train.count, test.count) == (5000, 1000)
    np.testing.assert_array_equal(np.bincount(train.labels), [500] * 10)
    np.testing.assert_array_equal(np.bincount(test.labels), [100] * 10)
    assert (train.pixels[:1000] != test.pixels).any(axis=(1, 2, 3)).all()


def random_features(images, crop_size, seed):
    """Globally pooled activations of a random AlexNet-like network, layer by layer."""
    low = (96 - crop_size) // 2
    x = images[:, low : low + crop_size, low : low + crop_size] / np.float32(127.5) - 1
    layers = []
    for i, (filters, kernel, stride, pool) in enumerate(
        [(96, 11, 4, True), (256, 5, 1, True), (384, 3, 1, False), (384, 3, 1, False), (256, 3, 1, False)]
    ):
        weights = tf.random.stateless_normal([kernel, kernel, x.shape[-1], filters], [seed, i])
        x = tf.nn.relu(tf.nn.conv2d(x, weights * np.sqrt(2 / (kernel**2 * x.shape[-1])), stride, "SAME"))
        layers.append(tf.reduce_mean(x, axis=[1, 2]).numpy())
        x = tf.nn.max_pool2d(x, 3, 2, "SAME") if pool else x
    return layers


@pytest.mark.slow
@pytest.mark.parametrize("crop_size", [64, 96])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_random_network_sees_something_but_not_all(crop_size, seed):
    from sklearn.linear_model import RidgeClassifierCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    splits = synthetic.find(None)
    train, test = splits["train"](), splits["test"]()

    def features(source):
        chunks = [random_features(source.pixels[i : i + 250], crop_size, seed) for i in range(0, source.count, 250)]
        return [np.concatenate(layer) for layer in zip(*chunks, strict=True)]

    accuracies = []
    for seen, unseen in zip(features(train), features(test), strict=True):
        probe = make_pipeline(StandardScaler(), RidgeClassifierCV(alphas=10.0 ** np.arange(-2, 5)))
        accuracies.append(probe.fit(seen, train.labels).score(unseen, test.labels))
    assert 0.25 <= max(accuracies) <= 0.60, accuracies
