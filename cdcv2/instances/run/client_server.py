"""Serves the clients of a front: many at once, none of which holds the others up, however slow or silent it is."""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Callable

from cdcv2.instances.commands import Command
from cdcv2.instances.front import FrontOutput, InstanceFront
from cdcv2.instances.requests import LONGEST
from cdcv2.instances.run.line_loop import LineConnection, LineLoop

#: How many clients there may be at once.
CLIENTS = 500
#: Bytes that may wait for a client: with more, its tail waits, too.
_MUCH = 1 << 20
#: Seconds in which a client has to send its request, and to take some of its answer.
_PATIENCE = 30.0
#: Seconds between two looks for clients that exceed it.
_LOOK = 1.0


class ClientServer:
    """The clients that connect at a place.

    ``send`` is given each command for a replica; what it calls :meth:`perform` with is done afterwards. ``keep`` is
    called before commands are sent, where a catalogue is to have what they come to.
    """

    def __init__(
        self, loop: LineLoop, front: InstanceFront, send: Callable[[str, Command], object],
        keep: Callable[[], object] = lambda: None, *, most: int = CLIENTS, patience: float = _PATIENCE,
    ) -> None:
        self._loop, self._front, self._send, self._keep = loop, front, send, keep
        self._most, self._patience = most, patience
        self._clients: dict[int, LineConnection] = {}
        # Clients whose request has come, and connections that only have to be sent the rest of their answer.
        self._asking: set[int] = set()
        self._leaving: list[LineConnection] = []
        self._number = 0
        self._outputs: deque[FrontOutput] = deque()
        self._working = False
        self._looked = 0.0

    def open(self, listening: socket.socket) -> None:
        """Accept clients from now on."""
        self._loop.listen(listening, self._arrived)

    @property
    def number(self) -> int:
        """How many clients there are."""
        return len(self._clients)

    def perform(self, output: FrontOutput) -> None:
        """Send what a front has decided; in order, also where sending comes to more."""
        self._outputs.append(output)
        if self._working:
            return
        self._working = True
        try:
            while self._outputs:
                self._perform(self._outputs.popleft())
        finally:
            self._working = False

    def keep_up(self) -> None:
        """What is to be done from time to time: let go of old times, and of clients that do nothing."""
        now = time.monotonic()
        if now < self._looked + _LOOK:
            return
        self._looked = now
        self.perform(self._front.keep_up(now))
        for number, client in list(self._clients.items()):
            waits_for_us = number in self._asking and not client.pending
            if not waits_for_us and client.moved < now - self._patience:
                client.end()
                self._left(number)
        for client in self._leaving:
            if client.moved < now - self._patience:
                client.end()
        self._leaving = [client for client in self._leaving if client.is_open]

    def _perform(self, output: FrontOutput) -> None:
        if output.commands:
            self._keep()
        for replica, command in output.commands:
            self._send(replica, command)
        for number, line in output.lines:
            client = self._clients.get(number)
            if client is not None:
                client.send(line)
                if client.pending > _MUCH and number not in output.over:
                    self.perform(self._front.pause(number))
        for number in output.more:
            if number in self._clients:
                self._clients[number].request_drained()
        for number in output.over:
            client = self._clients.pop(number, None)
            self._asking.discard(number)
            if client is not None:
                self._finish(client)

    def _arrived(self, stream: socket.socket) -> None:
        client = self._loop.add(stream, longest=LONGEST)
        if len(self._clients) >= self._most:
            client.send('{"busy": "it has as many clients as it takes, %d"}' % self._most)
            self._finish(client)
            return
        self._number += 1
        number = self._number
        self._clients[number] = client
        client.on_line = lambda line: self._requested(number, line)
        client.on_drained = lambda: self.perform(self._front.resume(number))
        client.on_end = lambda: self._left(number)

    def _finish(self, client: LineConnection) -> None:
        client.on_end = client.on_drained = _nothing
        client.finish()
        if client.is_open:
            self._leaving.append(client)

    def _requested(self, number: int, line: bytes) -> None:
        if number in self._asking:
            # A connection has one request.
            self._clients[number].end()
            self._left(number)
            return
        self._asking.add(number)
        self.perform(self._front.request(number, line))

    def _left(self, number: int) -> None:
        self._clients.pop(number, None)
        self._asking.discard(number)
        self.perform(self._front.leave(number))


def _nothing() -> None:
    """Nothing is left to be done."""
