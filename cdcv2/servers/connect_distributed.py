"""A distributed worker of Kafka Connect: connectors are made and removed through its REST interface, and outlive it.

It keeps configurations, positions and states in three topics. Its config providers read the environment and files, so
that a connector's configuration needs no password.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from cdcv2.servers.connect import HEAP, worker_child
from cdcv2.servers.processes import Child, Server, free_port

_PROVIDERS = "org.apache.kafka.common.config.provider"
_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"


class DistributedConnect(Server):
    """One worker without connectors. Entered, its REST interface answers.

    Args:
        bootstrap: the Kafka broker.
        environment: what the process finds in its environment, PGPASSWORD above all; adds to ours.
        folder: its log; None: a temporary folder, removed in the end.
        heap: the JVM's heap.
        settings: worker settings that add to or replace ours.
        jars: what its class path has besides, as extensions of its REST interface.
        port: where it listens; None: a free one.
    """

    def __init__(
        self, bootstrap: str, *, environment: Mapping[str, str], folder: Path | None = None, heap: str = HEAP,
        settings: Mapping[str, str] | None = None, jars: Sequence[Path] = (),
        port: int | None = None,
    ) -> None:
        super().__init__("connect-distributed", folder)
        self._jars = jars
        self._environment, self._heap, self._port = dict(environment), heap, port or free_port()
        topics = {
            f"{what}.storage.{key}": value
            for what in ("config", "offset", "status")
            for key, value in (("topic", f"connect-{what}"), ("replication.factor", "1"))
        }
        self._worker = {
            "bootstrap.servers": bootstrap,
            "group.id": "connect",
            "listeners": f"http://127.0.0.1:{self._port}",
            "rest.advertised.host.name": "127.0.0.1",
            "key.converter": _CONVERTER,
            "value.converter": _CONVERTER,
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "value.converter.replace.null.with.default": "false",
            "plugin.path": str(self.folder / "plugins"),
            "plugin.discovery": "service_load",
            **topics,
            "offset.storage.partitions": "1",
            "status.storage.partitions": "1",
            "offset.flush.interval.ms": "1000",
            "producer.enable.idempotence": "true",
            "producer.acks": "all",
            "config.providers": "env,file",
            "config.providers.env.class": f"{_PROVIDERS}.EnvVarConfigProvider",
            "config.providers.env.param.allowlist.pattern": "PG[A-Z]+",
            "config.providers.file.class": f"{_PROVIDERS}.FileConfigProvider",
            **(settings or {}),
        }

    @property
    def url(self) -> str:
        """The REST interface of the worker."""
        return f"http://127.0.0.1:{self._port}"

    def _launch(self) -> Child:
        worker = self.folder / "worker.properties"
        worker.write_text("".join(f"{name}={value}\n" for name, value in self._worker.items()), "utf-8")
        return worker_child(self, "ConnectDistributed", [worker], heap=self._heap, environment=self._environment,
                            more=self._jars)  # fmt: skip

    def _answers(self) -> bool:
        # Of the list of connectors: it answers when the worker has read its topics.
        try:
            with urllib.request.urlopen(f"{self.url}/connectors", timeout=5) as answer:
                return bool(answer.status == 200)
        except urllib.error.HTTPError as refusal:
            with refusal:
                # It works, and asks for a login.
                return refusal.code == 401
        except OSError:
            return False
