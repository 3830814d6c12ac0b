"""A real Kafka with a second listener that asks for a name and a password, and may grant no right."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cdcv2.servers.kafka import KafkaBroker
from cdcv2.servers.processes import free_port
from cdcv2.store.kafka_client import Client

_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@dataclass(frozen=True)
class GuardedKafka:
    """Who comes by the listener ``address`` is alice. By ``broker.bootstrap`` all may do all."""

    broker: KafkaBroker
    address: str
    password: str

    def login(self, folder: Path) -> Path:
        """The settings file of alice, as Java's clients have it."""
        path = folder / "client.properties"
        path.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={_LOGIN} username="alice" password="{self.password}";\n'
        )
        return path

    def grant(self, topic: str, *operations: str) -> None:
        """Let alice do this with a topic; by the names of Kafka's operations, as ``DESCRIBE``."""
        self._rights(topic, operations, True)

    def revoke(self, topic: str, *operations: str) -> None:
        """The opposite."""
        self._rights(topic, operations, False)

    def _rights(self, topic: str, operations: tuple[str, ...], granted: bool) -> None:
        from confluent_kafka.admin import (
            AclBinding, AclBindingFilter, AclOperation, AclPermissionType, ResourcePatternType, ResourceType,
        )

        admin = Client(self.broker.bootstrap).admin
        for operation in operations:
            right = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:alice", "*",
                     AclOperation[operation], AclPermissionType.ALLOW)  # fmt: skip
            act = admin.create_acls([AclBinding(*right)]) if granted else admin.delete_acls([AclBindingFilter(*right)])
            for done in act.values():
                done.result(20)


@contextmanager
def guarded_kafka(password: str, *, rights: bool = False) -> Iterator[GuardedKafka]:
    """One broker. ``rights``: alice has only those that she is granted; else all."""
    port = free_port()
    authorizer = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    broker = KafkaBroker(settings={
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.guarded.plain.sasl.jaas.config": f'{_LOGIN} user_alice="{password}";',
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,GUARDED:SASL_PLAINTEXT",
        **(authorizer if rights else {}),
    })
    for name in ("listeners", "advertised.listeners"):
        broker._settings[name] += f",GUARDED://127.0.0.1:{port}"
    with broker:
        yield GuardedKafka(broker, f"127.0.0.1:{port}", password)
