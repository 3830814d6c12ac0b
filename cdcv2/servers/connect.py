"""Kafka Connect with Debezium's PostgreSQL connector, in one process: changes of tables become records in topics.

The connector's configuration is given: ``cdcv2.connectors.debezium.config`` makes one that capture can rely on.
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cdcv2.errors import UnavailableError
from cdcv2.servers import jars
from cdcv2.servers.archive import flags
from cdcv2.servers.java import SHORT_LIVED, find_java
from cdcv2.servers.kafka import LOG4J
from cdcv2.servers.processes import Child, Server, free_port, poll_until

#: The heap of the JVM of a worker.
HEAP = "384m"


class Connect(Server):
    """A standalone Connect with one connector. Entered, its REST interface answers; see :meth:`wait_streaming`.

    Args:
        bootstrap: the Kafka broker.
        connector: the connector's configuration, as ``debezium_config`` makes it.
        environment: what the process finds in its environment, PGPASSWORD above all; adds to ours.
        schemas: whether each record carries its schema (four times the bytes).
        folder: positions and log; None: a temporary folder, removed in the end.
    """

    def __init__(
        self,
        bootstrap: str,
        connector: Mapping[str, str],
        *,
        environment: Mapping[str, str],
        schemas: bool = False,
        folder: Path | None = None,
    ) -> None:
        super().__init__("connect", folder)
        self._connector, self._environment = dict(connector), dict(environment)
        self._port = free_port()
        converter = "org.apache.kafka.connect.json.JsonConverter"
        self._worker = {
            "bootstrap.servers": bootstrap,
            "listeners": f"http://127.0.0.1:{self._port}",
            "key.converter": converter,
            "value.converter": converter,
            "key.converter.schemas.enable": str(schemas).lower(),
            "value.converter.schemas.enable": str(schemas).lower(),
            "value.converter.replace.null.with.default": "false",
            "plugin.path": str(self.folder / "plugins"),
            "plugin.discovery": "service_load",
            "offset.storage.file.filename": str(self.positions),
            # What came after is sent again after a kill.
            "offset.flush.interval.ms": "1000",
            "producer.enable.idempotence": "true",
            "producer.acks": "all",
            "config.providers": "env",
            "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
            "config.providers.env.param.allowlist.pattern": "PGPASSWORD",
        }

    @property
    def positions(self) -> Path:
        """The file in which the connector's place in the changes is kept."""
        return self.folder / "positions"

    @property
    def url(self) -> str:
        """The REST interface of the worker."""
        return f"http://127.0.0.1:{self._port}"

    def _launch(self) -> Child:
        worker, connector = self.folder / "worker.properties", self.folder / "connector.json"
        worker.write_text("".join(f"{name}={value}\n" for name, value in self._worker.items()), "utf-8")
        connector.write_text(json.dumps(self._connector, indent=1), "utf-8")
        return worker_child(
            self, "ConnectStandalone", [worker, connector], heap=HEAP, environment=self._environment
        )

    def _answers(self) -> bool:
        return self._get("/") is not None

    def kill9(self) -> None:
        """Kill it with SIGKILL. Where it was writing down its positions, those that it had written before are put back.

        It writes over the file; killed in that moment it would know none, and take a second snapshot.
        """
        before = self._written_down()
        super().kill9()
        if before and not self._snapshot_is_past():
            self.positions.write_bytes(before)

    def _written_down(self) -> bytes:
        """Positions that are a place in the stream, as written last; nothing where the snapshot is not behind it."""
        written = b""

        def whole() -> bool:
            nonlocal written
            written = self._read_positions()
            return not self.positions.exists() or _is_whole(written)

        poll_until(whole, 5, pause=0.001)
        return written if _is_past(written) else b""

    def _read_positions(self) -> bytes:
        try:
            return self.positions.read_bytes()
        except FileNotFoundError:
            return b""

    def wait_streaming(self, timeout: float = 120.0) -> None:
        """Return when the connector follows the changes, and has written down that its snapshot is behind it.

        Killed any earlier, it takes a second snapshot when it is restarted, which capture refuses: its seam with the
        changes is inexact. What is written down comes from a heartbeat or a change, at the next ``flush_ms``.

        Raises UnavailableError when its task fails, with its message, or after ``timeout`` seconds.
        """
        self.child.wait_until(lambda: self._streams() and self._snapshot_is_past(), "streaming", timeout)

    def _snapshot_is_past(self) -> bool:
        """Whether what is written down is a place in the stream, and not in a snapshot that is still running."""
        return _is_past(self._read_positions())

    def _streams(self) -> bool:
        status = self._get(f"/connectors/{self._connector['name']}/status") or {}
        for part in [status.get("connector") or {}, *status.get("tasks", [])]:
            if part.get("state") == "FAILED":
                raise UnavailableError(
                    f"the connector {self._connector['name']!r} failed: {_summary(part.get('trace'))}"
                )
        return "Starting streaming" in self.child.log_since_start()

    def _get(self, path: str) -> dict[str, Any] | None:
        """The JSON at ``path`` of the REST interface; None when there is no answer yet."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=5) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except OSError:  # not there yet, or not for this path (404)
            return None


def worker_child(
    server: Server, program: str, files: list[Path], *, heap: str, environment: Mapping[str, str],
    more: Sequence[Path] = (),
) -> Child:
    """The process of a worker with Debezium's connector as its one plugin. ``program``: Connect's class to start;
    ``more``: jars that its class path has besides."""
    logging = server.folder / "log4j2.properties"
    logging.write_text(
        LOG4J.format(level="warn") + "logger.dbz.name = io.debezium\nlogger.dbz.level = info\n", "utf-8"
    )
    # Connect takes each folder in plugin.path for a plugin with a class loader of its own.
    plugin = server.folder / "plugins" / "debezium-postgres"
    plugin.parent.mkdir(exist_ok=True)
    plugin.unlink(missing_ok=True)
    plugin.symlink_to(jars.fetch("debezium"))
    return Child(
        server.name,
        [
            find_java(),
            f"-Xmx{heap}",
            *SHORT_LIVED,
            *flags("kafka"),
            f"-Dlog4j2.configurationFile={logging}",
            "-cp",
            ":".join([f"{jars.fetch('kafka')}/*", *map(str, more)]),
            f"org.apache.kafka.connect.cli.{program}",
            *files,
        ],
        log=server.log,
        env={**os.environ, **environment},
        cwd=server.folder,
    )


def _summary(trace: str | None) -> str:
    """The first line of a Java stack trace and its deepest cause."""
    lines = [line.strip() for line in (trace or "without a word").splitlines()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    return " ... ".join(lines[:1] + causes[-1:])


def _is_whole(written: bytes) -> bool:
    """Whether the file was written to its end: a JSON object and the end mark of Java's serialized map.

    Connect writes over it, the four bytes of the format first; half a file is none to it, without a word.
    """
    return written.endswith(b"}x")


def _is_past(written: bytes) -> bool:
    past = b'"snapshot"' not in written or b'"snapshot_completed":true' in written
    return _is_whole(written) and b'"lsn"' in written and past
