"""A real Kafka, Connect and PostgreSQL, seen by a reader of its own, and changed by others than us.

Nothing here uses the product's code about external state: SQL, Kafka's admin client and Connect's REST interface.
"""

from __future__ import annotations

import json
import sqlite3
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import psycopg
from confluent_kafka import KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from cdcv2.servers.connect_distributed import DistributedConnect
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.servers.postgres import Postgres

T = TypeVar("T")
#: Errors that a server gives which is being started again.
AWAY = (psycopg.OperationalError, KafkaException, OSError)
#: How long, in seconds, one is waited for.
PATIENCE = 120.0
TOPIC, SLOT, PUBLICATION, CONNECTOR, TABLE = "topic", "slot", "publication", "connector", "target table"


class SeenObject(NamedTuple):
    """What is there: as its server knows it; the entry that its mark names; a text that changes if it is touched."""

    identity: str
    mark: str | None
    content: str


class RealServers:
    """The three servers. A pipeline finds its rows in the database ``bank``, and has its copies in ``copy``."""

    def __init__(self, postgres: Postgres, kafka: KafkaBroker, connect: DistributedConnect) -> None:
        self.postgres, self.kafka, self.connect = postgres, kafka, connect
        quiet = {"bootstrap.servers": kafka.bootstrap, "log_level": 0}
        self.producer, self.admin = Producer(quiet), AdminClient({**quiet, "socket.timeout.ms": 10000})
        self.source("CREATE DATABASE copy")
        self.source("CREATE TABLE everybody (id bigint PRIMARY KEY)")

    def conninfo(self, database: str, password: str = "${PGPASSWORD}") -> str:
        """For a pipeline file."""
        one = self.postgres
        return f"host={one.host} port={one.port} dbname={database} user={one.username} password={password}"

    # -- asked

    def source(self, sql: str, *values: object, database: str = "bank") -> list[Any]:
        """Rows, from the source or the copy."""

        def ask() -> list[Any]:
            with psycopg.connect(self.conninfo(database, self.postgres.password), autocommit=True) as session:
                cursor = session.execute(sql, values or None)  # type: ignore[call-overload]
                return cursor.fetchall() if cursor.description else []

        return again(ask)

    def rest(self, method: str, path: str, body: object = None) -> Any:
        """Connect's answer; None: there is nothing at the path."""

        def ask() -> Any:
            data = None if body is None else json.dumps(body).encode()
            request = urllib.request.Request(
                self.connect.url + path, data, method=method, headers={"Content-Type": "application/json"}
            )
            try:
                with urllib.request.urlopen(request, timeout=20) as answer:
                    text = answer.read()
            except urllib.error.HTTPError as error:
                with error:
                    text = error.read()
                    if error.code == 404 and b'"error_code"' in text:
                        return None
                    raise OSError(f"{method} {path}: {error.code} {text[:300]!r}") from None
            return json.loads(text) if text else {}

        return again(ask)

    def settle(self) -> None:
        """Return when no server is at work on what was asked of it, also by processes that were killed.

        Connect takes requests in their order, and tries a connector's configuration in a session of PostgreSQL.
        """
        until = time.monotonic() + PATIENCE
        while True:
            self.rest("GET", "/connectors")
            busy = self.source(
                "SELECT datname::text, query FROM pg_stat_activity WHERE backend_type = 'client backend' "
                "AND state <> 'idle' AND pid <> pg_backend_pid()"
            )
            if not busy:
                return
            assert time.monotonic() < until, busy
            time.sleep(0.1)

    def seen(self, prefix: str) -> dict[tuple[str, str], SeenObject]:
        """All that has a name which begins so, by kind and name."""
        return {
            **self._topics(prefix), **self._slots(prefix), **self._publications(prefix), **self._tables(prefix),
            **self._connectors(prefix),
        }  # fmt: skip

    def _topics(self, prefix: str) -> dict[tuple[str, str], SeenObject]:
        def ask() -> dict[tuple[str, str], SeenObject]:
            starts = (prefix, f"__debezium-heartbeat.{prefix}")
            names = [one for one in self.admin.list_topics(timeout=10).topics if one.startswith(starts)]
            if not names:
                return {}
            found, parts = {}, {}
            for name, future in self.admin.describe_topics(TopicCollection(names)).items():
                try:
                    described = future.result(10)
                except KafkaException as error:
                    if error.args[0].name() == "UNKNOWN_TOPIC_OR_PART":
                        continue
                    raise
                found[name] = str(described.topic_id)
                parts |= {TopicPartition(name, one.id): OffsetSpec.latest() for one in described.partitions}
            ends = dict.fromkeys(found, 0)
            for part, offset in self.admin.list_offsets(parts).items() if parts else ():
                ends[part.topic] += offset.result(10).offset
            return {(TOPIC, name): SeenObject(found[name], None, str(ends[name])) for name in found}

        return again(ask)

    def _slots(self, prefix: str) -> dict[tuple[str, str], SeenObject]:
        rows = self.source(
            "SELECT slot_name::text, database || '/' || slot_name || '/' || plugin "
            "FROM pg_replication_slots WHERE starts_with(slot_name::text, %s)", prefix,
        )  # fmt: skip
        # How far it is read is not compared: a task that Connect gave up waiting for goes on for a while.
        return {(SLOT, name): SeenObject(identity, None, "") for name, identity in rows}

    def _publications(self, prefix: str) -> dict[tuple[str, str], SeenObject]:
        rows = self.source(
            "SELECT pubname::text, oid::text, obj_description(oid, 'pg_publication'), (SELECT string_agg(t.tablename, "
            "',' ORDER BY t.tablename) FROM pg_publication_tables t WHERE t.pubname = p.pubname) "
            "FROM pg_publication p WHERE starts_with(pubname::text, %s)", prefix,
        )  # fmt: skip
        return {(PUBLICATION, name): SeenObject(oid, marked(note), tables or "") for name, oid, note, tables in rows}

    def _tables(self, prefix: str) -> dict[tuple[str, str], SeenObject]:
        rows = self.source(
            "SELECT relname::text, oid::text, obj_description(oid, 'pg_class') FROM pg_class WHERE relkind = 'r' "
            "AND starts_with(relname::text, %s)", prefix, database="copy",
        )  # fmt: skip
        sizes = {name: self.source(f'SELECT count(*) FROM "{name}"', database="copy")[0][0] for name, _, _ in rows}
        return {(TABLE, name): SeenObject(oid, marked(note), str(sizes[name])) for name, oid, note in rows}

    def _connectors(self, prefix: str) -> dict[tuple[str, str], SeenObject]:
        # A worker that starts answers this at once, and with none; the plain list, when it has read its topics.
        self.rest("GET", "/connectors")
        found = self.rest("GET", "/connectors?expand=info") or {}
        configs = {name: one["info"]["config"] for name, one in found.items() if name.startswith(prefix)}
        return {
            (CONNECTOR, name): SeenObject(marked(config.get("cdcv2.entry")) or "", marked(config.get("cdcv2.entry")),
                                          json.dumps(config, sort_keys=True))
            for name, config in configs.items()
        }  # fmt: skip

    # -- changed by others

    def give(self, kind: str, name: str) -> None:
        """Something of others, with content, under a name."""
        if kind == TOPIC:
            again(lambda: self.admin.create_topics([NewTopic(name, 1, 1)])[name].result(20))
            # A client that has just been answered that there is no such topic believes it for a moment.
            again(lambda: self.producer.produce(name, b"of others"))
            assert self.producer.flush(60) == 0
        elif kind == SLOT:
            self.source("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", name)
        elif kind == PUBLICATION:
            self.source(f'CREATE PUBLICATION "{name}" FOR TABLE everybody')
        elif kind == TABLE:
            self.source(f'CREATE TABLE "{name}" (id bigint PRIMARY KEY)', database="copy")
            self.source(f'INSERT INTO "{name}" VALUES (7)', database="copy")
        else:
            config = {
                "name": name, "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
                "topic.prefix": f"theirs-{name}", "database.hostname": self.postgres.host, "database.dbname": "bank",
                "database.port": str(self.postgres.port), "database.user": self.postgres.username,
                "database.password": "${env:PGPASSWORD}", "plugin.name": "pgoutput",
            }  # fmt: skip
            self.rest("POST", "/connectors", {"name": name, "config": config, "initial_state": "STOPPED"})

    def fill(self, topics: Iterable[str]) -> None:
        """A record into each that is there and empty."""
        wanted = {name for name in topics}
        for prefix in {name.split(".")[0] for name in wanted}:
            for (_, name), thing in self._topics(prefix).items():
                if name in wanted and thing.content == "0":
                    self.producer.produce(name, b"of ours")
        assert self.producer.flush(60) == 0

    def take(self, kind: str, name: str) -> None:
        """Remove what has the name, whosesoever it is; harmless where it is missing."""
        if kind == TOPIC:
            self._delete_topic(name)
        elif kind == SLOT:
            self._drop_slot(name)
        elif kind == PUBLICATION:
            self.source(f'DROP PUBLICATION IF EXISTS "{name}"')
        elif kind == TABLE:
            self.source(f'DROP TABLE IF EXISTS "{name}"', database="copy")
        else:
            self.rest("DELETE", f"/connectors/{name}")

    def _delete_topic(self, name: str) -> None:
        def delete() -> None:
            try:
                self.admin.delete_topics([name])[name].result(20)
            except KafkaException as error:
                if error.args[0].name() != "UNKNOWN_TOPIC_OR_PART":
                    raise

        again(delete)

    def _drop_slot(self, name: str) -> None:
        for _ in range(100):
            try:
                self.source(
                    "SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots "
                    "WHERE slot_name = %s AND active_pid IS NOT NULL", name,
                )
                self.source("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
                            "WHERE slot_name = %s", name)  # fmt: skip
                return
            except psycopg.errors.ObjectInUse:
                # Its connector has connected once more.
                continue
        raise AssertionError(f"the slot {name} is in use without end")


@contextmanager
def real_servers() -> Iterator[RealServers]:
    """Servers of their own, for many sequences at a time."""
    more = {"max_replication_slots": "80", "max_wal_senders": "80", "max_connections": "300"}
    with Postgres(settings=more) as postgres, KafkaBroker(heap="384m") as kafka:
        with DistributedConnect(kafka.bootstrap, environment=postgres.environment, heap="900m") as connect:
            yield RealServers(postgres, kafka, connect)


def again(ask: Callable[[], T]) -> T:
    """What is asked for, as soon as its server answers."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return ask()
        except AWAY as error:
            if isinstance(error, psycopg.errors.ObjectInUse) or time.monotonic() > until:
                raise
            time.sleep(0.5)


def marked(note: str | None) -> str | None:
    """The entry that a mark of the product names."""
    words = (note or "").split()
    return words[2] if words[:2] == ["cdcv2:", "entry"] else None


def entries_of(folder: Path) -> Iterator[dict[str, Any]]:
    """What a catalogue states, read beside the product."""
    path = folder / "catalogue.sqlite"
    if not path.exists():
        return
    with sqlite3.connect(path) as catalogue:
        rows = catalogue.execute("SELECT value FROM cdcv2_catalogue WHERE key LIKE 'entry:%'").fetchall()
    catalogue.close()
    for (text,) in rows:
        yield json.loads(text)
