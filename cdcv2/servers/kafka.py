"""A Kafka broker of one node, from jars: a real one, so that what tests learn from it is true of others.

KRaft mode, controller and broker in one JVM of some 250 MB. It listens on 127.0.0.1 without TLS. Topics are not made
by being named. What it acknowledged survives :meth:`~cdcv2.servers.processes.Server.kill9` (though not a power
failure, as nothing is flushed to disk on purpose).
"""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from cdcv2.errors import MissingExtraError, UnavailableError
from cdcv2.servers import jars
from cdcv2.servers.archive import flags
from cdcv2.servers.java import SHORT_LIVED, find_java
from cdcv2.servers.processes import Child, Server, free_port

#: for every JVM of ours that logs with log4j2: plain lines to standard output
LOG4J = """status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{{HH:mm:ss.SSS}} %p %c{{1}}: %m%n%throwable{{8}}
rootLogger.level = {level}
rootLogger.appenderRef.out.ref = out
"""

# One node: no replicas to wait for, and no waiting for members who never come.
_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    # After SIGKILL the old registration must run out before the new one counts: 13 s by default, 4 s so.
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "2000",
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.dedupe.buffer.size": "4194304",
}


class KafkaBroker(Server):
    """The broker. Entered, it leads every partition that it holds.

    Args:
        folder: data and log; None: a temporary folder, removed in the end.
        heap: the JVM's heap; 256m does for tests, 512m for tens of millions of updates.
        settings: broker settings that add to or replace ours.
        options: of its JVM; None: those with which it starts fast. For long runs, ``()`` compiles it well.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        heap: str = "256m",
        settings: Mapping[str, str] | None = None,
        options: Sequence[str] | None = None,
    ) -> None:
        super().__init__("kafka", folder)
        self._heap = heap
        self._options = (*SHORT_LIVED, *flags("kafka")) if options is None else tuple(options)
        self._port, controller = free_port(), free_port()
        self._settings = {
            **_SETTINGS,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            "log.dirs": str(self.folder / "data"),
            **(settings or {}),
        }

    @property
    def bootstrap(self) -> str:
        """Where clients find it: ``127.0.0.1:port``; the same after each restart."""
        return f"127.0.0.1:{self._port}"

    def _launch(self) -> Child:
        configuration = self.folder / "server.properties"
        configuration.write_text("".join(f"{name}={value}\n" for name, value in self._settings.items()), "utf-8")
        logging = self.folder / "log4j2.properties"
        logging.write_text(LOG4J.format(level="warn"), "utf-8")
        java = [
            str(find_java()),
            f"-Xmx{self._heap}",
            *self._options,
            f"-Dlog4j2.configurationFile={logging}",
            "-cp",
            f"{jars.fetch('kafka')}/*",
        ]
        if not (self.folder / "data" / "meta.properties").exists():
            self._format([*java, "kafka.tools.StorageTool", "format", "-t", str(uuid.uuid4()), "-c", configuration])
        return Child(self.name, [*java, "kafka.Kafka", configuration], log=self.log, cwd=self.folder)

    def _format(self, command: list[str | Path]) -> None:
        """Make the empty data folder a broker's; once in its life."""
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise UnavailableError(f"Kafka cannot format {str(self.folder)!r}: {(done.stdout + done.stderr)[-1000:]}")

    def _answers(self) -> bool:
        try:
            from confluent_kafka import KafkaException
            from confluent_kafka.admin import AdminClient
        except ImportError as cause:
            raise MissingExtraError("an embedded broker needs confluent-kafka", "demo") from cause
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        try:
            seen = admin.list_topics(timeout=1)
        except KafkaException:  # not yet: the answer, not an error
            return False
        led = (part.leader >= 0 for topic in seen.topics.values() for part in topic.partitions.values())
        return bool(seen.brokers) and all(led)
