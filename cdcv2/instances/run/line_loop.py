"""One thread that serves many connections, each of them lines in and lines out. Nothing in it waits for one of them."""

from __future__ import annotations

import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Bytes that are read at once, and sent at once.
_PART = 1 << 18
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class LineConnection:
    """One connection. Set ``on_line``, ``on_drained`` and ``on_end`` before the next turn of its loop.

    Attributes:
        on_line: is given each whole line with its break; of a line that is longer than ``longest``, its beginning.
        on_drained: is called when all that was to be sent is with the system, in a turn of its own.
        on_end: is called once, when the other side is not there any more; not when it was ended here.
        pending: bytes that wait to be sent.
        moved: when something was received or sent last, by the monotonic clock.
    """

    def __init__(self, stream: socket.socket, selector: selectors.BaseSelector, longest: int | None) -> None:
        self.on_line: Callable[[bytes], object] = _ignore
        self.on_drained: Callable[[], object] = _nothing
        self.on_end: Callable[[], object] = _nothing
        self.pending = 0
        self.moved = time.monotonic()
        self._stream, self._selector, self._longest = stream, selector, longest
        self._received = bytearray()
        self._parts: deque[memoryview] = deque()
        self._events = _READ
        self._finishing = self._ended = self._asks = False
        stream.setblocking(False)
        selector.register(stream, _READ, self)

    @property
    def is_open(self) -> bool:
        """Whether it is there still."""
        return not self._ended

    def send(self, line: str) -> None:
        """Send a line; what the system does not take at once waits here."""
        if self._ended or self._finishing:
            return
        data = line.encode() + b"\n"
        self._parts.append(memoryview(data))
        self.pending += len(data)
        # Where others wait already, the system took no more.
        if len(self._parts) == 1:
            self._write()

    def request_drained(self) -> None:
        """Call ``on_drained`` in the next turn in which nothing waits to be sent, also where nothing does now."""
        self._asks = True
        self._watch()

    def finish(self) -> None:
        """End it as soon as all is sent; nothing more is read."""
        self._finishing = True
        self._watch()

    def end(self) -> None:
        """End it now."""
        if not self._ended:
            self._ended = True
            self._selector.unregister(self._stream)
            self._stream.close()
            self._parts.clear()
            self.pending = 0

    def happened(self, events: int) -> None:
        """The system reports that it can be read or written."""
        if events & _WRITE and not self._ended:
            self._write()
            if not self.pending and not self._ended and not self._finishing:
                self._asks = False
                self._watch()
                self.on_drained()
        if events & _READ and not self._ended:
            self._read()

    def _read(self) -> None:
        try:
            data = self._stream.recv(_PART)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lost()
            return
        self.moved = time.monotonic()
        if self._finishing:
            # What comes behind the request that was answered is of no use.
            return
        begin = len(self._received)
        self._received += data
        while not self._ended and not self._finishing:
            found = self._received.find(b"\n", begin)
            if found < 0:
                break
            line = bytes(self._received[:found + 1])
            del self._received[:found + 1]
            begin = 0
            self.on_line(line)
        if self._longest is not None and len(self._received) > self._longest and not self._finishing:
            line = bytes(self._received)
            self._received.clear()
            self.on_line(line)

    def _write(self) -> None:
        try:
            while self._parts:
                sent = self._stream.send(self._parts[0][:_PART])
                self.moved = time.monotonic()
                self.pending -= sent
                self._parts[0] = self._parts[0][sent:]
                if not self._parts[0]:
                    self._parts.popleft()
        except BlockingIOError:
            pass
        except OSError:
            # It is read next, and found to be over: nothing is called from within a send.
            self._parts.clear()
            self.pending = 0
        self._watch()

    def _watch(self) -> None:
        if self._ended:
            return
        if self._finishing and not self.pending:
            self.end()
            return
        events = _READ | _WRITE if self.pending or self._asks else _READ
        if events != self._events:
            self._events = events
            self._selector.modify(self._stream, events, self)

    def _lost(self) -> None:
        self.end()
        self.on_end()


class LineLoop:
    """The connections of a process. :meth:`turn` does what can be done now, and waits for something to do.

    >>> loop, heads = LineLoop(), list[bytes]()
    >>> ours, theirs = socket.socketpair()
    >>> connection = loop.add(ours)
    >>> connection.on_line = heads.append
    >>> theirs.sendall(b'{"status": {}}' + bytes([10]))
    >>> loop.turn(1.0)
    >>> heads
    [b'{"status": {}}\\n']
    >>> loop.close(); theirs.close()

    Cost: that of the connections with something to do. Memory: what waits to be sent, and the lines that are not whole.
    """

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def listen(self, listening: socket.socket, arrived: Callable[[socket.socket], object]) -> None:
        """Give each connection that comes in to ``arrived``."""
        self._selector.register(listening, _READ, (listening, arrived))

    def add(self, stream: socket.socket, *, longest: int | None = None) -> LineConnection:
        """Serve a connection, whose lines may have up to ``longest`` bytes."""
        return LineConnection(stream, self._selector, longest)

    def connect(self, path: Path) -> LineConnection:
        """A connection to a Unix socket. Raises OSError."""
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            stream.setblocking(False)
            stream.connect(str(path))
        except OSError:
            stream.close()
            raise
        return self.add(stream)

    def turn(self, seconds: float) -> None:
        """Wait up to so many seconds for something to do, and do it."""
        for key, events in self._selector.select(seconds):
            if isinstance(key.data, LineConnection):
                key.data.happened(events)
            else:
                self._accept(*key.data)

    def _accept(self, listening: socket.socket, arrived: Callable[[socket.socket], object]) -> None:
        try:
            stream, _ = listening.accept()
        except OSError:
            # It left before it was accepted, or there are no more descriptors: then it is tried again.
            return
        arrived(stream)

    def close(self) -> None:
        """End every connection."""
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, LineConnection):
                key.data.end()
        self._selector.close()


def _ignore(line: bytes) -> Any:
    """Nothing is done with it."""


def _nothing() -> Any:
    """Nothing is done."""
