"""HTTP requests with a deadline for the whole exchange: urllib's timeout covers single reads only."""

import contextlib
import http.client
import socket
import threading
import urllib.error
import urllib.request
from typing import Any


def fetch(request: urllib.request.Request, seconds: float) -> bytes:
    """Sends a request and returns the body of the response.

    Raises:
      TimeoutError: the response is incomplete after `seconds`.
      urllib.error.HTTPError: with its `said`, the body, for answers that are no success.
    """
    cut = _Cut()
    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        with urllib.request.build_opener(_Connecting(cut)).open(request, timeout=seconds) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        with error:
            error.said = error.read()  # type: ignore[attr-defined]
        cut.check()
        raise
    except (OSError, http.client.HTTPException):
        cut.check()
        raise
    finally:
        timer.cancel()


class _Cut:
    """Ends what a connection sends and receives, from another thread."""

    def __init__(self):
        self._sockets: list[socket.socket] = []
        self._is_over = threading.Event()

    def watch(self, connected: socket.socket) -> None:
        self._sockets.append(connected)
        self.check()

    def check(self) -> None:
        if self._is_over.is_set():
            raise TimeoutError("timed out")

    def __call__(self):
        self._is_over.set()
        for connected in self._sockets:
            with contextlib.suppress(OSError):  # it is closed already
                socket.socket.shutdown(connected, socket.SHUT_RDWR)  # of the plain socket: TLS would wait for an answer


class _Connecting(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Has each connection watched as soon as there is one."""

    def __init__(self, cut: _Cut):
        super().__init__()
        self._cut = cut

    def do_open(self, kind: Any, request: Any, **options: Any) -> Any:  # type: ignore[override]
        cut = self._cut

        class Watched(kind):
            def connect(self):
                super().connect()
                cut.watch(self.sock)

        return super().do_open(Watched, request, **options)
