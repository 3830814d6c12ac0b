"""A bank's changes arrive in topics: snapshot, stream and marker, also when Connect is killed on the way.

The judge is a few lines that know nothing of capture: each row record once, by transaction and place in it, added up.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from cdcv2.connectors.debezium.config import debezium_config, exact_pattern
from cdcv2.demo.bank import TABLES, Bank, in_order, row_types
from cdcv2.errors import UnavailableError
from cdcv2.servers.connect import Connect
from cdcv2.servers.kafka import KafkaBroker
from cdcv2.servers.postgres import Postgres
from cdcv2.servers.processes import poll_until

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """A database without tables."""
    with Postgres() as started:
        yield started


def config(postgres: Postgres, prefix: str, tables: tuple[str, ...] = TABLES) -> dict[str, str]:
    """The connector of a test."""
    return debezium_config(
        prefix, tables, host=postgres.host, port=postgres.port, database=postgres.database, user=postgres.username,
        partitions=2,
    )  # fmt: skip


@contextmanager
def reader(broker: KafkaBroker) -> Iterator[Consumer]:
    """A consumer that belongs to no group."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "nobody", "enable.auto.commit": False, "log_level": 0}
    )
    try:
        yield consumer
    finally:
        consumer.close()


def partitions(broker: KafkaBroker, topic: str) -> int:
    """How many the topic has; 0 without a topic."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    found = admin.list_topics(timeout=300).topics.get(topic)
    return len(found.partitions) if found else 0


def bodies(broker: KafkaBroker, topic: str) -> list[dict[str, Any]]:
    """The bodies of the topic's records, tombstones left out, with or without their schemas."""
    found: list[dict[str, Any]] = []
    with reader(broker) as consumer:
        for number in range(partitions(broker, topic)):
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=300)
            consumer.assign([TopicPartition(topic, number, 0)])
            for message in consumer.consume(end, timeout=300) if end else []:
                raw = message.value()
                if raw is not None:
                    body = json.loads(raw)
                    found.append(body["payload"] if body.keys() == {"schema", "payload"} else body)
    return found


def ends(broker: KafkaBroker, prefix: str) -> dict[str, tuple[int, dict[str, int]]]:
    """Of each transaction that ended: its LSN, and how many rows of which captured table it has."""
    found = {}
    for body in bodies(broker, f"{prefix}.transaction"):
        if body["status"] == "END":
            tx, _, lsn = body["id"].partition(":")
            counts = {part["data_collection"]: part["event_count"] for part in body["data_collections"] or []}
            found[tx] = (int(lsn), {table: count for table, count in counts.items() if table in TABLES})
    return found


def arrived(broker: KafkaBroker, prefix: str) -> tuple[dict[str, Counter[Any]], dict[str, dict[str, int]], int]:
    """Per table its rows added up, per transaction its records counted, and how many records came again."""
    rows: dict[str, Counter[Any]] = {table: Counter() for table in TABLES}
    counted: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    seen, repeats = set(), 0
    for table, row_type in row_types().items():
        for body in bodies(broker, f"{prefix}.{table}"):
            transaction = body["transaction"]
            if transaction is not None:
                identity = (body["source"]["txId"], transaction["total_order"])
                if identity in seen:
                    repeats += 1
                    continue
                seen.add(identity)
                counted[str(body["source"]["txId"])][table] += 1
            for image, diff in (body["before"], -1), (body["after"], +1):
                if image is not None:
                    rows[table][tuple(image[column] for column in row_type.columns)] += diff
    return {table: +counts for table, counts in rows.items()}, counted, repeats


def test_everything_arrives_although_connect_is_killed(broker: KafkaBroker, postgres: Postgres, tmp_path: Path) -> None:
    """Killed while changes come, and restarted, now with schemas in its records: nothing is lost."""
    bank = Bank(postgres.connect, accounts=60, seed=3)
    bank.create()
    first = Connect(broker.bootstrap, config(postgres, "road"), environment=postgres.environment, folder=tmp_path)
    with bank.at_work(clients=3, rate=100) as clients:
        with first:
            first.wait_streaming()
            written, before = first.positions.stat().st_mtime_ns, len(ends(broker, "road"))
            assert poll_until(lambda: len(ends(broker, "road")) > before + 20, 60, pause=0.5)
            first.kill9()
            unwritten = written == first.positions.stat().st_mtime_ns
        second = Connect(
            broker.bootstrap, config(postgres, "road"), environment=postgres.environment, folder=tmp_path, schemas=True
        )
        with second:
            second.wait_streaming()
            clients.stop()
            marker = bank.marker()
            assert poll_until(lambda: any(lsn > marker for lsn, _ in ends(broker, "road").values()), 60, pause=0.5)

    rows, counted, repeats = arrived(broker, "road")
    finished = ends(broker, "road")
    assert bank.cut() == {table: in_order(rows[table].elements()) for table in TABLES}
    ended = {tx: counts for tx, (_, counts) in finished.items() if counts}
    # Killed inside a transaction, the connector may count in its last END only what it has sent since: seen once.
    torn = [tx for tx in ended if ended[tx] != counted.get(tx)]
    assert (counted.keys(), True) == (ended.keys(), len(torn) <= 1)
    assert [] == [tx for tx in torn for table, number in ended[tx].items() if number > counted[tx][table]]
    assert [1] == [1 for lsn, _ in finished.values() if lsn > marker], "the marker, and nothing else, is past itself"
    assert repeats > 0 or not unwritten, "what was sent after the last written position is sent again"
    # One partition where order counts, and word of every table's snapshot.
    names = ("transaction", "notifications", *TABLES)
    assert (1, 1, 2, 2, 2) == tuple(partitions(broker, f"road.{name}") for name in names)
    said = [body for body in bodies(broker, "road.notifications") if body["type"] == "TABLE_SCAN_COMPLETED"]
    assert set(TABLES) == {body["additional_data"]["scanned_collection"] for body in said}


def test_the_password_is_in_no_file_of_connect(broker: KafkaBroker, postgres: Postgres, tmp_path: Path) -> None:
    """The connector's configuration is made to be copied, shown and committed; and a wrong password is reported."""
    with pytest.raises(UnavailableError, match="password authentication failed"):
        with Connect(
            broker.bootstrap, config(postgres, "wrong"), environment={"PGPASSWORD": "mistaken"}, folder=tmp_path
        ) as connect:
            connect.wait_streaming()

    files = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_symlink()]
    assert {"connect.log", "connector.json", "worker.properties"} <= {path.name for path in files}
    assert [] == [path.name for path in files if b"mistaken" in path.read_bytes()]


def test_a_name_in_a_list_means_one_table(broker: KafkaBroker, postgres: Postgres, tmp_path: Path) -> None:
    """Not those whose names differ in case only. A dot and a comma are characters of a name as any."""
    names = ("lab.sold", "lab.we.ird, one")
    with postgres.connect(autocommit=True) as session:
        session.execute("CREATE SCHEMA lab")
        for name in ("sold", "Sold", "we.ird, one", "We.ird, one"):
            session.execute(f'CREATE TABLE lab."{name}" (id int PRIMARY KEY, price int)'.encode())
            session.execute(f'INSERT INTO lab."{name}" VALUES (1, 2)'.encode())
    settings = {**config(postgres, "cases", names), "column.exclude.list": exact_pattern("lab.Sold.price")}
    with Connect(broker.bootstrap, settings, environment=postgres.environment, folder=tmp_path) as connect:
        connect.wait_streaming()
        topics = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0}).list_topics(timeout=300).topics
        sent = {topic: [body["after"] for body in bodies(broker, topic)]
                for topic in topics if topic.startswith("cases.lab")}  # fmt: skip

    assert {
        "cases.lab.sold": [{"id": 1, "price": 2}], "cases.lab.we.ird__one": [{"id": 1, "price": 2}],
    } == sent
