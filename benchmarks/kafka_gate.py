"""A gate before a Kafka broker: while it is shut, its clients are connected, and nothing passes.

The broker has a listener of its own for it, which names the gate as its address. A connector whose producer goes
through it cannot write while it is shut, and its task is RUNNING all the time: it tries again without end.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from cdcv2.servers.kafka import KafkaBroker
from cdcv2.servers.processes import free_port


class KafkaGate:
    """The gate, open at first, before a broker that was not started yet."""

    def __init__(self, broker: KafkaBroker) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._behind, self._open = free_port(), threading.Event()
        self._open.set()
        for name, port in (("listeners", self._behind), ("advertised.listeners", self._listening.getsockname()[1])):
            broker._settings[name] += f",GATE://127.0.0.1:{port}"
        broker._settings["listener.security.protocol.map"] += ",GATE:PLAINTEXT"
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def bootstrap(self) -> str:
        """Where clients find it."""
        return f"127.0.0.1:{self._listening.getsockname()[1]}"

    def shut(self) -> None:
        """Let nothing pass."""
        self._open.clear()

    def open(self) -> None:
        """Let all pass, what waited included."""
        self._open.set()

    def close(self) -> None:
        """Take no more connections."""
        self._open.set()
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError):
            broker = socket.create_connection(("127.0.0.1", self._behind))
            for one, other in ((client, broker), (broker, client)):
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError), one, other:
            while data := one.recv(65536):
                self._open.wait()
                other.sendall(data)
