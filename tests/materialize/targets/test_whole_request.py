"""The whole of a request has a deadline; here the clock is run by hand, and nothing is sent."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPSConnection
from typing import Any

import pytest

from cdcv2.materialize.targets.webhook import whole_request
from cdcv2.materialize.targets.webhook.whole_request import Limit, send

REQUEST = urllib.request.Request("https://localhost:1/hook", b"x", method="POST")


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection."""
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def test_a_connection_is_shut_down_when_the_time_is_over(ends: tuple[socket.socket, socket.socket]) -> None:
    """What waits there ends at once, and the error is that it took too long."""
    with pytest.raises(TimeoutError, match="no whole answer in 1.5 seconds"), Limit(1.5) as limit:
        limit.watch(ends[0])
        limit._end()
        assert b"" == ends[1].recv(1)


def test_a_connection_that_is_opened_too_late(ends: tuple[socket.socket, socket.socket]) -> None:
    """Nothing was there to be shut down."""
    limit = Limit(60)
    limit._end()
    with pytest.raises(TimeoutError, match="in 60 seconds"):
        limit.watch(ends[0])


def test_one_that_is_closed_already_is_no_error(ends: tuple[socket.socket, socket.socket]) -> None:
    """The request has ended in the meantime, and it is late all the same."""
    with pytest.raises(TimeoutError), Limit(60) as limit:
        limit.watch(ends[0])
        ends[0].close()
        limit._end()


@pytest.mark.parametrize("error", [OSError("reset"), HTTPException("half"), ValueError("closed file")])
def test_what_the_shutting_down_raises_is_that_it_is_late(error: Exception) -> None:
    """And in time it is what it is."""
    with pytest.raises(TimeoutError), Limit(60) as limit:
        limit._end()
        raise error
    with pytest.raises(type(error), match=str(error)), Limit(60):
        raise error


def test_another_error_stays_what_it_is() -> None:
    """Also when it is late."""
    with pytest.raises(KeyError), Limit(60) as limit:
        limit._end()
        raise KeyError("mine")


def test_the_clock_ends_with_the_request() -> None:
    """And keeps no process alive."""
    with Limit(60) as limit:
        assert limit._clock.is_alive() and limit._clock.daemon
    limit._clock.join(60)

    assert (False, 60) == (limit._over, limit._clock.interval)
    assert limit._clock.function == limit._end


def test_connections_are_watched(ends: tuple[socket.socket, socket.socket]) -> None:
    """From the moment that they are open, with TLS and without, and with a time-out of each operation."""
    made: list[tuple[Any, Any]] = []
    limit = Limit(60)
    handler = whole_request._Handler(limit)
    handler.do_open = lambda factory, request: made.append((factory, request))  # type: ignore[method-assign,assignment]
    handler.https_open(REQUEST)
    handler.http_open(REQUEST)
    (secure, first), (plain, second) = made

    assert first is second is REQUEST
    assert isinstance(secure("localhost", timeout=7), HTTPSConnection)
    assert not isinstance(plain("localhost"), HTTPSConnection)
    for factory in (secure, plain):
        connection = factory("localhost:1", timeout=7)
        assert (7, 1, None) == (connection.timeout, connection.port, limit._socket)
        connection.sock = ends[0]
        assert limit._socket is ends[0]
        connection.sock = limit._socket = None


def test_a_request_is_sent_and_its_answer_received(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more of it than is needed; and no redirection is followed, which would lose the body."""
    seen: list[Any] = []

    class Answer:
        """Notes how much is read of it."""

        def read(self, most: int) -> bytes:
            """Nothing."""
            seen.append(most)
            return b""

    class Opener:
        """Notes what it is to open."""

        @contextmanager
        def open(self, request: Any, timeout: float) -> Iterator[Answer]:
            """The answer."""
            seen.append((request, timeout))
            yield Answer()

    def built(*handlers: Any) -> Opener:
        seen.extend(handlers)
        return Opener()

    monkeypatch.setattr(urllib.request, "build_opener", built)
    send(REQUEST, 7)
    redirects, handler, opened, most = seen

    assert ((REQUEST, 7), 65_536, 7) == (opened, most, handler._limit._seconds)
    assert redirects.redirect_request(REQUEST, None, 302, "", {}, "http://localhost") is None
