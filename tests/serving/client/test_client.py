"""The client against a process that speaks TF Serving's protocol, and against TF Serving itself where it is found."""

import base64
import socket
import sys

import numpy as np
import pytest
import tensorflow as tf

from lci_tf.serving import client
from lci_tf.serving.unreadable import UnreadableImages

BY = ("grpc", "rest")
by_both = pytest.mark.parametrize("by", BY)


@pytest.fixture
def connect():
    """Connects to a server by one of its interfaces; closed at the end."""
    opened = []

    def connect(served, by, *arguments, **settings):
        opened.append(client.connect(getattr(served, by), *arguments, **settings))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()


@pytest.fixture(scope="module")
def contents(photos):
    return [path.read_bytes() for path in sorted(photos.iterdir())]


@pytest.fixture(scope="module")
def expected(export_dir, contents):
    signature = tf.saved_model.load(str(export_dir / "1")).signatures["serving_default"]
    return {name: value.numpy() for name, value in signature(image_bytes=tf.constant(contents)).items()}


@by_both
def test_rows_are_in_the_order_of_the_images_however_many_requests_it_takes(server, connect, by, contents, expected):
    for limit in (64, 3):
        features = connect(server, by, max_request_images=limit)
        assert features.version == 1 and set(features.outputs) == {"embedding", "transformation"}
        found = features.predict(contents, ["embedding", "transformation"])
        assert set(found) == {"embedding", "transformation"} and found["embedding"].dtype == np.float32
        for name, rows in found.items():
            np.testing.assert_allclose(rows, expected[name], atol=1e-5)
    assert set(features.predict(contents[:1], ["embedding"])) == {"embedding"}
    assert features.predict([], ["embedding"])["embedding"].shape == (0, 24)


@by_both
def test_batches_come_in_order_and_without_what_cannot_be_read(server, connect, by, contents, expected):
    bad = b"no image"
    batches = [contents[:5], [bad, contents[5], bad], [], [bad, bad], contents[6:]]
    answers = list(connect(server, by, in_flight=2, max_request_images=2).predict_all(batches, ["embedding"]))
    assert [answer["valid"].tolist() for answer in answers] == [
        [True] * 5, [False, True, False], [], [False, False], [True] * (len(contents) - 6)
    ]  # fmt: skip
    rows = np.concatenate([answer["embedding"] for answer in answers])
    valid = np.concatenate([answer["valid"] for answer in answers])
    np.testing.assert_allclose(rows[valid], expected["embedding"], atol=1e-5)
    assert not rows[~valid].any()


@by_both
def test_unreadable_images_are_found_over_several_requests(server, connect, by, contents):
    given = [contents[0], b"", contents[1], contents[2], b"no image", contents[3][:40], contents[4]]
    with pytest.raises(UnreadableImages, match=r"at position 1, 4, 5$") as caught:
        connect(server, by, max_request_images=3).predict(given, ["embedding"])
    assert caught.value.positions == [1, 4, 5]


def test_more_unreadable_images_than_a_message_has_room_for(server, connect, contents):
    given = [b"no image %d" % i for i in range(100)] + contents[:1]
    (answer,) = connect(server, "grpc", max_request_images=128).predict_all([given], ["embedding"])
    assert answer["valid"].tolist() == [False] * 100 + [True]


@by_both
def test_what_the_user_can_put_right(server, connect, by, contents, refusal):
    address = getattr(server, by)
    assert refusal(client.connect, address, "others") == (
        f"--server={address}: serves no model 'others', or not this version of it "
        "(Servable not found for request: Latest(others))"
    )
    features = connect(server, by)
    for ask in (features.predict, features.predict_all):
        assert refusal(ask, [contents[:1]], ["embedding", "conv9"]) == (
            f"--server={address}: its model 'features' gives embedding, transformation, not 'conv9'"
        )


@by_both
def test_a_server_of_another_model(stood_in, refusal, by):
    assert refusal(client.connect, getattr(stood_in, by), "doubles").endswith(
        "its model 'doubles' is no export of lci_tf: serving_default takes x (float32), not image_bytes (string)"
    )


@by_both
def test_a_server_that_is_not_there(by, refusal):
    with socket.socket() as nobody:  # takes the port, and does not listen
        nobody.bind(("localhost", 0))
        address = f"{'http://' if by == 'rest' else ''}localhost:{nobody.getsockname()[1]}"
        message = refusal(client.connect, address, "features", 1.0)
    assert message.startswith(f"--server={address}: not there, or too busy; scripts/serve EXPORT_DIR starts one (")


@pytest.mark.parametrize("server", ["localhost", "localhost:http", "ftp://localhost:1", ":8500", "", "http://:8501"])
def test_what_is_no_address(server, refusal):
    assert refusal(client.connect, server) == f"--server={server}: expected HOST:PORT, or http://HOST:PORT for REST"


def test_rest_of_something_else(stood_in, refusal):
    """Of a web server that is not TF Serving: here its address is not the root of the interface."""
    assert "refuses the request with INVALID_ARGUMENT (Malformed request: GET" in refusal(
        client.connect, stood_in.rest + "/v1"
    )


@by_both
def test_an_answer_without_the_output(stood_in, connect, trouble, by, contents, refusal):
    features = connect(stood_in, by)
    trouble(lose="embedding")
    message = refusal(features.predict, contents[:2], ["embedding"])
    assert message == f"--server={getattr(stood_in, by)}: the answer lacks the output 'embedding'"


@by_both
def test_retries_when_the_server_is_busy_or_away(stood_in, connect, trouble, by):
    lengths = connect(stood_in, by, "lengths")
    trouble(fail=[["UNAVAILABLE", "full"], ["RESOURCE_EXHAUSTED", "busy"], ["UNAVAILABLE", "full"]])
    assert lengths.predict([b"seventeen letters"], ["embedding"])["embedding"].tolist() == [[17]]
    assert stood_in.get("/stand_in")["requests"] == 4


@by_both
def test_retries_are_bounded(stood_in, connect, trouble, by, refusal):
    lengths = connect(stood_in, by, "lengths", deadline=1.5)
    trouble(fail=[["RESOURCE_EXHAUSTED", "busy"]] * 99)
    message = refusal(lengths.predict, [b"letters"], ["embedding"])
    assert message.endswith(": takes no more requests, or none of this size (busy)")
    assert 4 <= stood_in.get("/stand_in")["requests"] <= 20


@by_both
@pytest.mark.parametrize(
    "code, message",
    [
        ("RESOURCE_EXHAUSTED", "Received message larger than max (5000000 vs. 4194304)"),
        ("INVALID_ARGUMENT", "Task size 64 is larger than maximum input batch size 32"),
        ("INTERNAL", "broken"),
    ],
)
def test_what_will_not_pass_is_not_retried(stood_in, connect, trouble, by, refusal, code, message):
    lengths = connect(stood_in, by, "lengths")
    trouble(fail=[[code, message]])
    assert refusal(lengths.predict, [b"letters"], ["embedding"]).endswith(f"({message})")
    assert stood_in.get("/stand_in")["requests"] == 1


@by_both
def test_the_deadline(stood_in, connect, trouble, by, refusal):
    lengths = connect(stood_in, by, "lengths", deadline=2)
    trouble(delay=4)
    assert ": no answer within 2 s (" in refusal(lengths.predict, [b"letters"], ["embedding"])


@by_both
def test_requests_in_flight_are_bounded(stood_in, connect, trouble, by):
    lengths = connect(stood_in, by, "lengths", in_flight=3, max_request_images=2)
    trouble(delay=0.2)
    batches = [[b"x" * (10 * i + j) for j in range(5)] for i in range(1, 6)]
    answers = list(lengths.predict_all(batches, ["embedding"]))
    assert [answer["embedding"][:, 0].tolist() for answer in answers] == [[*map(len, batch)] for batch in batches]
    assert stood_in.get("/stand_in")["requests"] == 15 and stood_in.get("/stand_in")["at_once"] == 3


@by_both
def test_all_requests_are_to_the_version_that_was_found_first(stood_in, connect, trouble, by):
    lengths = connect(stood_in, by, "lengths", max_request_images=1)
    trouble()
    lengths.predict([b"first", b"second"], ["embedding"])
    assert lengths.version == 3 and stood_in.get("/stand_in")["versions"] == [3, 3]


def test_no_more_is_read_than_is_wanted(stood_in, connect):
    read = []

    def batches():
        for i in range(100):
            read.append(i)
            yield [b"letters"]

    answers = connect(stood_in, "grpc", "lengths", in_flight=2).predict_all(batches(), ["embedding"])
    next(answers)
    answers.close()
    assert len(read) <= 4


@by_both
def test_the_size_of_requests_is_bounded(stood_in, connect, trouble, by):
    lengths = connect(stood_in, by, "lengths", max_request_bytes=50_000)
    trouble()
    contents = [b"x" * (997 * i % 9_000) + b"\0\0\0\0\0" for i in range(60)]
    found = lengths.predict(contents, ["embedding"])["embedding"]
    assert found[:, 0].tolist() == [*map(len, contents)]  # not a byte is lost
    assert 40_000 < stood_in.get("/stand_in")["largest"] <= 50_000
    trouble()
    assert lengths.predict([b"first", b"x" * 80_000, b"third"], ["embedding"])["embedding"][1] == 80_000
    assert stood_in.get("/stand_in")["requests"] == 3  # the large one alone


@by_both
def test_another_clients_unreadable_image_in_the_same_batch(stood_in, connect, trouble, by, contents, expected):
    features, foreign = connect(stood_in, by), base64.b64encode(b"no image").decode()
    trouble(company=[foreign])
    np.testing.assert_allclose(
        features.predict(contents[:2], ["embedding"])["embedding"], expected["embedding"][:2], atol=1e-5
    )
    assert stood_in.get("/stand_in")["requests"] == 2
    trouble(company=[foreign, base64.b64encode(contents[3]).decode()])
    with pytest.raises(UnreadableImages) as caught:
        features.predict([contents[0], b"not mine"], ["embedding"])
    assert caught.value.positions == [1]


@by_both
def test_zeros_of_the_server_are_not_taken_for_features(stood_in, connect, trouble, by):
    lengths = connect(stood_in, by, "lengths", max_request_images=2)
    with pytest.raises(UnreadableImages) as caught:
        lengths.predict([b"letters", b"bad", b"bad"], ["embedding"])
    assert caught.value.positions == [1, 2]
    asked = lengths.predict([b"letters", b"bad"], ["valid", "embedding"])
    assert asked["valid"].tolist() == [True, False] and asked["embedding"].tolist() == [[7], [0]]
    trouble()
    (answer,) = lengths.predict_all([[b"bad", b"letters"]], ["embedding"])
    assert answer["valid"].tolist() == [False, True] and answer["embedding"].tolist() == [[0], [7]]
    assert stood_in.get("/stand_in")["requests"] == 1  # nothing to ask again


def test_grpc_without_the_extra(monkeypatch, refusal):
    monkeypatch.setitem(sys.modules, "tensorflow_serving.apis", None)
    assert refusal(client.connect, "localhost:8500") == (
        "--server=localhost:8500: gRPC needs tensorflow-serving-api (pip install lci_tf[serving]); "
        "http://HOST:PORT asks by REST without it"
    )
