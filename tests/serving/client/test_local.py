import numpy as np
import pytest
import tensorflow as tf

from lci_tf.runs import trained
from lci_tf.serving.client.local import LocalModel
from lci_tf.serving.client.predictor import predict_readable
from lci_tf.serving.export import exporting
from lci_tf.serving.unreadable import UnreadableImages


def png(grey):
    return tf.io.encode_png(np.full([40, 40, 3], grey, np.uint8)).numpy()


@pytest.fixture(scope="module")
def zeros_dir(run, tmp_path_factory):
    export_dir = tmp_path_factory.mktemp("zeros")
    exporting.export(trained.from_run(run.path), export_dir, on_bad_image="zeros")
    return export_dir


@pytest.mark.parametrize("policy", ["export_dir", "zeros_dir"])
def test_asked_as_a_server_is(request, policy):
    model = LocalModel(request.getfixturevalue(policy))
    contents = [png(10), b"bad", png(200)]
    with pytest.raises(UnreadableImages) as caught:
        model.predict(contents, ["embedding"])
    assert caught.value.positions == [1]
    good = model.predict([contents[0], contents[2]], ["embedding"])["embedding"]
    found = predict_readable(model, contents, ["embedding"])
    np.testing.assert_allclose(found["embedding"][[0, 2]], good, atol=1e-6)
    assert not found["embedding"][1].any() and found["valid"].tolist() == [True, False, True]
    assert model.predict([], ["embedding"])["embedding"].shape == (0, good.shape[1])


def test_what_is_no_export(tmp_path, refusal):
    assert refusal(LocalModel, tmp_path / "none").endswith("no such folder")
    tf.saved_model.save(tf.Module(), str(tmp_path / "1"))
    assert refusal(LocalModel, tmp_path).endswith("is not an export of lci_tf, which would take image_bytes")


class Trouble(tf.Module):
    """Gives lengths; and something that cannot be computed, as whoever asks for it learns."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="image_bytes")])
    def of_bytes(self, image_bytes):
        length = tf.strings.length(image_bytes)[:, tf.newaxis]
        return {"embedding": tf.cast(length, tf.float32), "trouble": tf.gather([0.0], length)}


def test_what_is_not_asked_for_is_not_computed(tmp_path):
    tf.saved_model.save(tf.Module(), str(tmp_path / "1"), signatures=Trouble().of_bytes)
    model = LocalModel(tmp_path)
    assert model.predict([b"three"], ["embedding"])["embedding"] == [[5]]
    with pytest.raises(tf.errors.InvalidArgumentError):
        model.predict([b"three"], ["trouble"])
