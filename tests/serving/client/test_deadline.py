"""A deadline is a deadline: until then it is asked again, and after that no more is waited."""

import contextlib
import socket
import threading
import time

import pytest

from lci_tf.serving import client

by_both = pytest.mark.parametrize("by", ["grpc", "rest"])


@pytest.fixture
def listener():
    """Starts a server that listens after so many seconds, and serves each who calls in a thread; gives its address."""
    threads, opened, ended = [], [], threading.Event()

    def listen(address, serve, after=0.0):
        time.sleep(after)
        with socket.create_server(address) as server:
            server.settimeout(0.1)
            while not ended.is_set():
                with contextlib.suppress(TimeoutError):
                    connection = server.accept()[0]
                    opened.append(connection)
                    threading.Thread(target=serve, args=(connection,), daemon=True).start()

    def start(serve, after=0.0):
        with socket.create_server(("localhost", 0)) as taken:
            address = taken.getsockname()[:2]
        thread = threading.Thread(target=listen, args=(address, serve, after))
        thread.start()
        threads.append(thread)
        return "{}:{}".format(*address)

    yield start
    ended.set()
    for thread in threads:
        thread.join()
    for connection in opened:
        connection.close()


def forward(to):
    """What hands on to another server."""

    def pump(source, target):
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)

    def serve(connection):
        with socket.create_connection(to.rpartition("/")[2].split(":")) as other:
            back = threading.Thread(target=pump, args=(other, connection), daemon=True)
            back.start()
            pump(connection, other)
            back.join()

    return serve


@by_both
def test_a_server_that_comes_back_in_time(stood_in, listener, by):
    address = listener(forward(getattr(stood_in, by)), after=4)
    with client.connect(f"{'http://' * (by == 'rest')}{address}", "lengths", deadline=60) as lengths:
        assert lengths.predict([b"seventeen letters"], ["embedding"])["embedding"].tolist() == [[17]]


@by_both
def test_a_server_that_does_not_is_waited_for_until_the_deadline_and_no_longer(by, refusal):
    with socket.create_server(("localhost", 0)) as taken:
        address = f"localhost:{taken.getsockname()[1]}"
    began = time.monotonic()
    message = refusal(client.connect, f"{'http://' * (by == 'rest')}{address}", "features", 4.0)
    assert 3.8 < time.monotonic() - began < 5.5 and "not there, or too busy" in message


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"


@pytest.mark.parametrize("at_once", [HEAD, b""], ids=["the body", "all of it"])
def test_a_server_that_sends_a_byte_from_time_to_time(listener, refusal, at_once):
    def trickle(connection):
        with contextlib.suppress(OSError):
            connection.sendall(at_once)
            for byte in (HEAD + b" " * 1000)[len(at_once) :]:
                time.sleep(0.3)
                connection.sendall(bytes([byte]))

    address, began = listener(trickle), time.monotonic()
    assert ": no answer within 2 s (timed out)" in refusal(client.connect, f"http://{address}", "features", 2.0)
    assert 1.9 < time.monotonic() - began < 3.5


def test_no_thread_is_left_when_it_is_answered(stood_in):
    with client.connect(stood_in.rest, "lengths", deadline=1000) as lengths:
        before = threading.active_count()
        for _ in range(20):
            lengths.predict([b"letters"], ["embedding"])
        assert threading.active_count() <= before + 4  # those of the client's pool
