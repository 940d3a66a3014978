"""The projector's folder, as TensorBoard's own plugin reads and serves it."""

import json

import numpy as np
import pytest
from PIL import Image
from tensorboard.backend import application
from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
from tensorboard.plugins import base_plugin
from tensorboard.plugins.projector import projector_plugin
from werkzeug import test as werkzeug_test
from werkzeug import wrappers

from lci_tf.plotting import projector


def thumbnails(count, side=8):
    return np.random.default_rng(0).integers(0, 256, [count, side, side, 3], np.uint8)


@pytest.fixture
def served(tmp_path):
    """A request to the plugin, when `tensorboard --logdir` is given the folder."""
    multiplexer = plugin_event_multiplexer.EventMultiplexer()
    multiplexer.AddRunsFromDirectory(str(tmp_path))
    multiplexer.Reload()
    provider = data_provider.MultiplexerDataProvider(multiplexer, str(tmp_path))
    plugin = projector_plugin.ProjectorPlugin(base_plugin.TBContext(logdir=str(tmp_path), data_provider=provider))
    app = application.TensorBoardWSGI([plugin], data_provider=provider)
    client = werkzeug_test.Client(app, wrappers.Response)

    def get(route, **query):
        response = client.get(f"/data/plugin/projector/{route}", query_string={"run": ".", **query})
        assert response.status_code == 200, response.get_data()
        return response.get_data()

    return get


def test_tensorboard_serves_features_thumbnails_and_facts(tmp_path, served):
    features = {"conv2": np.random.default_rng(1).normal(size=[10, 4]).astype(np.float32), "conv5": np.eye(10)}
    projector.write(
        tmp_path, features, thumbnails(10), {"class": ["cat"] * 10, "place": [f"a\tb {i}" for i in range(10)]}
    )
    assert json.loads(served("runs")) == ["."]
    config = json.loads(served("info"))
    assert [embedding["tensorName"] for embedding in config["embeddings"]] == ["conv2", "conv5"]
    assert config["embeddings"][1]["tensorShape"] == [10, 10]
    assert config["embeddings"][0]["sprite"] == {"imagePath": "sprite.png", "singleImageDim": [8, 8]}
    found = np.frombuffer(served("tensor", name="conv2"), np.float32).reshape(10, 4)
    np.testing.assert_allclose(found, features["conv2"], rtol=1e-5)
    assert served("metadata", name="conv5").decode().splitlines()[:2] == ["class\tplace", "cat\ta b 0"]
    assert served("sprite_image", name="conv5") == (tmp_path / "sprite.png").read_bytes()


def test_a_single_fact_has_no_line_with_its_name(tmp_path):
    projector.write(tmp_path, {"conv5": np.ones([2, 3])}, thumbnails(2), {"place": ["one", "two"]})
    assert (tmp_path / "metadata.tsv").read_text() == "one\ntwo\n"


def test_a_sprite_is_square_and_row_by_row(tmp_path):
    tiles = thumbnails(5)
    picture, side = projector.sprite(tiles)
    assert side == 8 and picture.shape == (24, 24, 3)
    for i, tile in enumerate(tiles):
        row, column = divmod(i, 3)
        np.testing.assert_array_equal(picture[8 * row : 8 * row + 8, 8 * column : 8 * column + 8], tile)
    shrunk, side = projector.sprite(tiles, largest=13)  # to four pixels each, so that three are not beyond
    assert side == 4 and shrunk.shape == (12, 12, 3)
    np.testing.assert_allclose(shrunk[:4, 4:8], np.asarray(Image.fromarray(tiles[1]).reduce(2)), atol=1)
