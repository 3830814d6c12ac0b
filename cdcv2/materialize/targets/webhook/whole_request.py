"""HTTP requests of which the whole has a deadline: connecting, sending, and the answer to its last byte.

A time-out of ``urllib`` is one of each operation on the socket. A server that sends a byte now and then never reaches
it. Here a clock runs beside the request, and when it has run out, the connection is shut down, which ends every wait
there.
"""

from __future__ import annotations

import socket
import threading
import urllib.request
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from types import TracebackType
from typing import Any

# How much is read of an answer that means "taken"; its content is not needed.
_MOST = 65_536


class Limit:
    """Seconds that run from entering on; a connection that is open when they are over is shut down.

    Leaves with TimeoutError when they were over, also if the request has ended in the meantime.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self._lock, self._over = seconds, threading.Lock(), False
        self._socket: socket.socket | None = None
        self._clock = threading.Timer(seconds, self._end)
        self._clock.daemon = True

    def __enter__(self) -> Limit:
        self._clock.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clock.cancel()
        if self._over and (error is None or isinstance(error, (OSError, HTTPException, ValueError))):
            raise self._late() from None

    def watch(self, opened: socket.socket) -> None:
        """What is to be shut down. Raises TimeoutError when it is too late already."""
        with self._lock:
            self._socket = opened
            if self._over:
                raise self._late()

    def _late(self) -> TimeoutError:
        return TimeoutError(f"no whole answer in {self._seconds:g} seconds")

    def _end(self) -> None:
        with self._lock:
            self._over = True
            if self._socket is not None:
                try:
                    # Beneath TLS: its own way of ending waits for the other side.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
                except OSError:
                    # It is closed, or is being made into one with TLS, which has a time-out of its own.
                    return


class _Handler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Opens connections that the limit knows."""

    def __init__(self, limit: Limit) -> None:
        urllib.request.HTTPHandler.__init__(self)
        urllib.request.HTTPSHandler.__init__(self)
        self._limit = limit

    def http_open(self, request: urllib.request.Request) -> HTTPResponse:
        """Without TLS."""
        return self.do_open(partial(_WatchedConnection, self._limit), request)

    def https_open(self, request: urllib.request.Request) -> HTTPResponse:
        """With it."""
        return self.do_open(partial(_Secure, self._limit), request)


class _WatchedConnection(HTTPConnection):
    def __init__(self, limit: Limit, host: str, **options: Any) -> None:
        self._limit = limit
        super().__init__(host, **options)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        # Given up while its answer is read, it is open still.
        if name == "sock" and value is not None:
            self._limit.watch(value)


class _Secure(_WatchedConnection, HTTPSConnection):
    """The same with TLS."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirected POST would go on as a GET, without its body."""

    def redirect_request(self, *_: Any) -> None:
        """None: the answer is an error."""


def send(request: urllib.request.Request, seconds: float) -> None:
    """Send it, and receive the answer. Raises HTTPError for another than 2xx, OSError and HTTPException for none.

    The OSError is a TimeoutError if not all of it was over after so many seconds.
    """
    with Limit(seconds) as limit:
        opener = urllib.request.build_opener(_NoRedirects(), _Handler(limit))
        with opener.open(request, timeout=seconds) as answer:
            answer.read(_MOST)
