"""The API's server: a thread of its own with a loop of its own, so that no client holds what keeps the jobs."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from cdcv2.control.api.limits import ALLOWED, CONNECTIONS, HEADERS, LIFETIME

#: Seconds for requests that are being answered when the server ends, and for the thread to end.
GRACE, ENDING = 1, 10.0
#: Of those that may be connected, the part that is accepted in one turn of the loop. What a client sends at once is
#: read two turns later: too few others have come meanwhile for one to take its place.
ACCEPTED = 1 / 4
#: Clients that wait to be accepted; the system refuses further ones.
WAITING = 1024
#: Seconds that a refused client has to read why, and how many may do so at once, for each that may be connected.
READING, READERS = 1.0, 4


@contextmanager
def serving(
    application: Any, listening: socket.socket, *, connections: int = CONNECTIONS, lifetime: float = LIFETIME
) -> Iterator[threading.Thread]:
    """Within the block the application is served at the socket, by the thread that is given.

    ``connections``: at once; one more takes the place of the oldest that has not shown the token, and is refused where
    all have. ``lifetime``: the seconds after which a connection is cut, whatever
    its client does. Each connection has one request.
    """
    # It reports each request that is no HTTP, which any client may send without end.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    server = _PatientServer(uvicorn.Config(
        application, http=_connections(connections, lifetime), ws="none", lifespan="off", log_config=None,
        access_log=False, proxy_headers=False, server_header=False, h11_max_incomplete_event_size=HEADERS,
        headers=[("Connection", "close"), ("Cache-Control", "no-store")], timeout_graceful_shutdown=GRACE,
        loop="asyncio", backlog=max(1, int(ACCEPTED * connections)),
    ))  # fmt: skip
    thread = threading.Thread(target=server.run, args=([listening],), name="cdcv2 API", daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        server.should_exit = True
        thread.join(ENDING)
        listening.close()


class _PatientServer(uvicorn.Server):
    """Accepts few clients in a turn of the loop, as many as its backlog, and lets more wait for that."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept."""
        await super().startup(sockets)
        for one in sockets or []:
            one.listen(WAITING)


class BoundedConnection(asyncio.Protocol):
    """A connection that ends after a while, whatever its client does, with uvicorn's own inside of it.

    ``served`` has those that are served, the oldest first; ``refused`` those that read why they are not.
    """

    def __init__(
        self, inner: Any, most: int, lifetime: float, refused: set[BoundedConnection],
        served: dict[BoundedConnection, None],
    ) -> None:
        self._inner, self._most, self._lifetime = inner, most, lifetime
        self._end: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._others, self._refused = refused, False
        self._served = served

    @property
    def has_token(self) -> bool:
        """Whether its request has arrived, and has the token."""
        return bool((getattr(self._inner, "scope", None) or {}).get(ALLOWED))

    def cut(self) -> None:
        """End it now, for another one."""
        self._served.pop(self, None)
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Serve it, or refuse it at once if there are too many."""
        self._transport = stream = cast(asyncio.Transport, transport)
        if len(self._served) >= self._most:
            oldest = next((one for one in self._served if not one.has_token), None)
            if oldest is not None:
                oldest.cut()
        self._refused = len(self._served) >= self._most
        seconds = READING if self._refused else self._lifetime
        self._end = asyncio.get_running_loop().call_later(seconds, stream.abort)
        if not self._refused:
            self._served[self] = None
            self._inner.connection_made(transport)
        elif len(self._others) >= READERS * self._most:
            stream.abort()
        else:
            # Closed only when the request has arrived: else the system drops the answer with it.
            self._others.add(self)
            stream.write(_raw(503, f"{self._most} clients are connected already", "try again later"))

    def data_received(self, data: bytes) -> None:
        """More of the request."""
        if not self._refused:
            self._inner.data_received(data)
        elif self._transport is not None:
            self._transport.close()

    def eof_received(self) -> bool | None:
        """No more of the request."""
        return None if self._refused else self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended."""
        if self._end is not None:
            self._end.cancel()
        self._others.discard(self)
        self._served.pop(self, None)
        if not self._refused:
            self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        """The client reads more slowly than we write."""
        if not self._refused:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """It has caught up."""
        if not self._refused:
            self._inner.resume_writing()


def _connections(most: int, lifetime: float) -> Any:
    """What makes the protocol of each connection, as uvicorn calls it."""
    refused: set[BoundedConnection] = set()
    served: dict[BoundedConnection, None] = {}

    def made(**given: Any) -> BoundedConnection:
        return BoundedConnection(H11Protocol(**given), most, lifetime, refused, served)

    return made


def _raw(code: int, reason: str, remedy: str) -> bytes:
    """A whole answer, where no request was read."""
    body = json.dumps({"reason": reason, "remedy": remedy}).encode()
    head = (
        f"HTTP/1.1 {code} {HTTPStatus(code).phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
