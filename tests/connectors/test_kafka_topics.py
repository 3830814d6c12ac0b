"""The recorded topics in a real Kafka: captured as from the dump, and everything unsafe about topics is refused."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cdcv2.capture.facts import Record
from cdcv2.capture.run.commit_times import Capture
from cdcv2.capture.run.loop import run
from cdcv2.capture.run.memory_file import MemoryFile
from cdcv2.capture.topics import PartitionPosition
from cdcv2.connectors import kafka_topics
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.connectors.kafka_topics import KafkaTopics
from cdcv2.core.antichain import Antichain
from cdcv2.errors import MissingLogError, SourceStop, UnavailableError, UnsafeTopicError
from cdcv2.protocol.iter import Iter
from cdcv2.store.kafka_client import Client
from tests.doubles import RecordingLog
from tests.recorded import TABLES, dump, recipe, truth, content, checkpoint_time
from tests.logs.polling import until

pytestmark = pytest.mark.integration
_names = itertools.count()


@pytest.fixture(scope="module")
def broker() -> Iterator[Any]:
    """One real broker."""
    from cdcv2.servers.kafka import KafkaBroker

    with KafkaBroker() as running:
        yield running


class Cluster:
    """What a test does to a cluster: topics of a prefix of its own, made and filled."""

    def __init__(self, bootstrap: str) -> None:
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient

        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})

    def make(self, topic: str, partitions: int = 1, **settings: str) -> None:
        from confluent_kafka import admin

        config = {name.replace("_", "."): value for name, value in settings.items()}
        new = admin.NewTopic(  # type: ignore[attr-defined]
            topic, num_partitions=partitions, replication_factor=1, config=config
        )
        self.admin.create_topics([new])[topic].result(timeout=300)

    def send(self, records: Iterable[Record]) -> None:
        for record in records:
            self.producer.produce(record.topic, partition=record.partition, key=record.key, value=record.value)
            self.producer.poll(0)
        self.producer.flush(20)


@pytest.fixture
def cluster(broker: Any) -> Cluster:
    """The broker, as a test's hands."""
    return Cluster(broker.bootstrap)


@pytest.fixture(scope="module")
def recorded(broker: Any) -> str:
    """The topics of clean_full as they were; the records stand at the same offsets."""
    hands = Cluster(broker.bootstrap)
    parts: dict[str, int] = {}
    for topic, partition in dump("clean_full").partitions():
        parts[topic] = max(parts.get(topic, 0), partition + 1)
    for topic, number in parts.items():
        hands.make(topic, number)
    hands.send(dump("clean_full").read())
    bootstrap: str = broker.bootstrap
    return bootstrap


def prefix() -> str:
    """A name that no other test uses."""
    return f"p{next(_names)}"


def end(name: str, offset: int, tx: int, lsn: int) -> Record:
    """END of a transaction without rows."""
    value = f'{{"status": "END", "id": "{tx}:{lsn}", "event_count": 0, "data_collections": []}}'
    return Record(f"{name}.transaction", 0, offset, None, value.encode())


def small(name: str) -> Recipe:
    """One table, no snapshot."""
    return Recipe(name, {"public.order_items": TABLES["public.order_items"]}, snapshot="none")


def items(log: RecordingLog) -> set[Any]:
    """The updates that a reader of the log gets."""
    return {update for batch in Iter(log.durable) for update in batch.updates}


def test_the_topics_are_captured_as_their_dump_is(recorded: str, tmp_path: Any) -> None:
    """Bytes from a real broker, in whatever order it gives them; the memory is a file, the stop is the same."""
    logs = {table: RecordingLog() for table in TABLES}
    memory = MemoryFile(tmp_path / "memory.json")
    how = recipe("clean_full")
    with Capture(how, logs, memory=memory) as capture, pytest.raises(SourceStop, match="was truncated"):
        run(capture, KafkaTopics(Client(recorded), how), release_every=500)
    for table in TABLES:
        at = checkpoint_time("clean_full", "04_quiesced")
        assert [truth("clean_full", "04_quiesced", table)] == content(logs[table].durable, table, at)
    before = {table: list(log.durable) for table, log in logs.items()}
    again = {table: log.again() for table, log in logs.items()}
    with Capture(how, again, memory=memory) as capture, pytest.raises(SourceStop, match="was truncated"):
        assert sum(capture.positions().values()) > 4000, "what is released is not read again"
        run(capture, KafkaTopics(Client(recorded), how))
        assert 100 > capture.counters.records
    assert before == {table: log.durable for table, log in again.items()}


def test_ends_and_positions_are_those_of_the_dump(recorded: str) -> None:
    """For progress, and for a snapshot whose rows are not counted."""
    topics = KafkaTopics(Client(recorded), recipe("clean_full"))
    wanted = recipe("clean_full").topics()
    expected = {place: end for place, end in dump("clean_full").ends().items() if place[0] in wanted}
    ends = topics.ends()
    assert expected == {place: end for place, end in ends.items() if end}
    records = [item for item in topics.read(ends) if isinstance(item, Record)]
    assert [] == records


def test_a_table_without_a_topic_is_waited_for(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connector makes it at the first row; following, it is found and read from its start."""
    monkeypatch.setattr(kafka_topics, "_LOOK", 0.2)
    name = prefix()
    cluster.make(f"{name}.transaction")
    cluster.send([end(name, 0, 5, 70)])
    how = small(name)
    topics = KafkaTopics(Client(cluster.bootstrap), how)
    assert [f"{name}.public.order_items"] == topics.missing()
    found: list[Any] = []
    for item in topics.read({}, follow=True):
        if isinstance(item, Record):
            found.append(item.topic)
            if len(found) == 1:
                cluster.make(f"{name}.public.order_items", 3)
                cluster.send([Record(f"{name}.public.order_items", 2, 0, None, b"{}")])
            else:
                break
    assert [f"{name}.transaction", f"{name}.public.order_items"] == found


def test_a_partition_of_which_nothing_comes_is_read_by_another_consumer(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a client ceases to fetch it: no error comes, and the broker has more. Nothing is lost, nothing twice."""
    monkeypatch.setattr(kafka_topics, "_LOOK", 0.05)
    name = prefix()
    cluster.make(f"{name}.transaction")
    cluster.send([end(name, 0, 5, 70)])
    client, consumers = Client(cluster.bootstrap), list[Any]()
    monkeypatch.setattr(client, "consumer", partial(_noted, consumers, client.consumer))
    read = KafkaTopics(client, small(name)).read({}, follow=True)
    found = [next(item for item in read if isinstance(item, Record)).offset]
    next(item for item in read if item is None)
    consumers[0].pause([client.kafka.TopicPartition(f"{name}.transaction", 0)])
    cluster.send([end(name, 1, 6, 80), end(name, 2, 7, 90)])
    found += [item.offset for item in itertools.islice((one for one in read if isinstance(one, Record)), 2)]
    read.close()  # type: ignore[attr-defined]

    assert ([0, 1, 2], 2) == (found, len(consumers))


def _noted(found: list[Any], make: Any) -> Any:
    found.append(make())
    return found[-1]


def test_until_the_end_is_until_what_was_there(cluster: Cluster) -> None:
    """An idle topic ends; of each partition there is how far it was read, records or not."""
    name = prefix()
    cluster.make(f"{name}.transaction")
    cluster.make(f"{name}.public.order_items", 2)
    cluster.send([end(name, 0, 5, 70), end(name, 1, 6, 80)])
    log = RecordingLog()
    with Capture(small(name), {"public.order_items": log}) as capture:
        waiting = run(capture, KafkaTopics(Client(cluster.bootstrap), small(name)))
        assert Antichain([81]) == capture.frontier
    assert ("end", "nothing is open") == (waiting.what, waiting.text)
    assert set() == items(log)
    seen = [
        item
        for item in KafkaTopics(Client(cluster.bootstrap), small(name)).read({})
        if isinstance(item, PartitionPosition)
    ]
    assert {0} == {item.following for item in seen if item.place[0].endswith("order_items")}


def test_it_stops_when_told(cluster: Cluster) -> None:
    """Following has no end of its own; what is whole is released first."""
    name = prefix()
    cluster.make(f"{name}.transaction")
    cluster.send([end(name, 0, 5, 70)])
    with Capture(small(name), {"public.order_items": RecordingLog()}) as capture:
        topics = KafkaTopics(Client(cluster.bootstrap), small(name))
        run(capture, topics, follow=True, stopping=lambda: capture.frontier == Antichain([71]))
        assert Antichain([71]) == capture.frontier


def test_partitions_that_are_ahead_wait_and_nothing_is_lost(recorded: str) -> None:
    """A limit far below what is open at once: slower, the same."""
    logs = {table: RecordingLog() for table in TABLES}
    how = recipe("clean_full")
    with Capture(how, logs) as capture, pytest.raises(SourceStop):
        run(capture, KafkaTopics(Client(recorded), how), release_every=50, hold=1)
    at = checkpoint_time("clean_full", "04_quiesced")
    for table in TABLES:
        assert [truth("clean_full", "04_quiesced", table)] == content(logs[table].durable, table, at)


def test_the_transaction_topic_must_exist_and_have_one_partition(cluster: Cluster) -> None:
    """Without it there are no commit times; with two partitions no commit order."""
    name = prefix()
    with pytest.raises(MissingLogError, match=f"no topic '{name}.transaction'.*provide.transaction.metadata=true"):
        list(KafkaTopics(Client(cluster.bootstrap), small(name)).read({}))
    cluster.make(f"{name}.transaction", 2)
    with pytest.raises(UnsafeTopicError, match="has 2 partitions, .*: start over, with a topic of one"):
        list(KafkaTopics(Client(cluster.bootstrap), small(name)).read({}))


def test_one_that_follows_waits_for_the_transaction_topic(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database is idle at first, so the connector has not made it: what it waits for, and what there is, is stated.

    Topics that come later are checked as the others are.
    """
    monkeypatch.setattr(kafka_topics, "_LOOK", 0.0)
    name = prefix()
    cluster.make(f"{name}.public.other")
    topics = KafkaTopics(Client(cluster.bootstrap), small(name))
    items = topics.read({}, follow=True)
    assert next(items) is None
    waits = topics.waits() or ""
    assert (True, True) == (f"no topic '{name}.transaction'" in waits, f"prefix {name}: {name}.public.other" in waits)

    cluster.make(f"{name}.transaction")
    cluster.send([end(name, 0, 5, 70)])
    found = next(item for item in items if isinstance(item, Record))
    assert (0, None, 0) == (found.offset, topics.waits(), topics.unread())
    cluster.make(f"{name}.public.order_items", cleanup_policy="compact")
    with pytest.raises(UnsafeTopicError, match="order_items' is compacted"):
        for _ in range(100):
            next(items)


def test_a_compacted_topic_is_refused(cluster: Cluster) -> None:
    """It loses rows, and no reader would see which."""
    name = prefix()
    cluster.make(f"{name}.transaction")
    cluster.make(f"{name}.public.order_items", cleanup_policy="compact")
    with pytest.raises(UnsafeTopicError, match="order_items' is compacted"):
        list(KafkaTopics(Client(cluster.bootstrap), small(name)).read({}))


def test_a_trimmed_topic_and_one_made_anew_are_refused(cluster: Cluster) -> None:
    """What is asked for is not there any more, or never was."""
    name = prefix()
    cluster.make(f"{name}.transaction")
    cluster.send(end(name, n, 5 + n, 70 + n) for n in range(4))
    from confluent_kafka import TopicPartition

    topic = f"{name}.transaction"
    assert 4 == sum(isinstance(item, Record) for item in KafkaTopics(Client(cluster.bootstrap), small(name)).read({}))
    for future in cluster.admin.delete_records([TopicPartition(topic, 0, 2)]).values():
        future.result(timeout=300)
    with pytest.raises(UnsafeTopicError, match="begins at 2 in partition 0, and 0 is wanted"):
        list(KafkaTopics(Client(cluster.bootstrap), small(name)).read({}))
    left = KafkaTopics(Client(cluster.bootstrap), small(name)).read({(topic, 0): 2})
    assert 2 == sum(isinstance(item, Record) for item in left)
    with pytest.raises(UnsafeTopicError, match="ends at 4 in partition 0, and was read up to 9"):
        list(KafkaTopics(Client(cluster.bootstrap), small(name)).read({(topic, 0): 9}))
    topics = KafkaTopics(Client(cluster.bootstrap), small(name))
    before = topics.identities()
    for future in cluster.admin.delete_topics([topic]).values():
        future.result(timeout=300)

    def deleted() -> bool:
        try:
            return not topics.identities()
        except MissingLogError:
            # Deleted between the question which topics there are and the next one.
            return False

    until(deleted, "the topic is deleted")
    cluster.make(topic)
    until(lambda: bool(topics.identities()), "the topic is there again")
    after = topics.identities()
    assert [topic] == list(before) == list(after) and before != after


def test_a_broker_that_goes_down_and_comes_back_is_waited_for(broker: Any, cluster: Cluster) -> None:
    """Killed and started again while somebody follows: what comes then is read as if nothing had been."""
    name = prefix()
    cluster.make(f"{name}.transaction")
    cluster.send([end(name, 0, 5, 70)])
    found: list[int] = []
    for item in KafkaTopics(Client(broker.bootstrap), small(name)).read({}, follow=True):
        if isinstance(item, Record):
            found.append(item.offset)
            if found == [0]:
                broker.kill9()
                broker.restart()
                Cluster(broker.bootstrap).send([end(name, 1, 6, 80)])
            else:
                break
    assert [0, 1] == found


def test_a_topic_that_was_cut_off_and_written_over_is_noticed_by_the_epoch(broker: Any, cluster: Cluster) -> None:
    """By its offset alone, another consumer reads on behind records that it has never seen."""
    name = prefix()
    topic = f"{name}.transaction"
    cluster.make(topic)
    cluster.send([end(name, 0, 5, 70)])
    broker.kill9()
    broker.restart()
    Cluster(broker.bootstrap).send([end(name, at, 6 + at, 80 + at) for at in (1, 2)])
    client, found = Client(broker.bootstrap), []
    # As if it had read, of the leader of before the restart, what is not there any more.
    for known in (None, (2, 0), (1, 0)):
        consumer = client.consumer()
        consumer.incremental_assign([client.place(topic, 0, known[0] if known else 2, known)])
        messages = list[Any]()
        until(lambda: bool(messages.extend(client.received(consumer, 9, 1.0)) or messages), "something comes")
        error = messages[0].error()
        found.append(messages[0].offset() if error is None else client.removed(error))
        consumer.close()
    assert [2, True, 1] == found


def test_brokers_that_stay_away_are_an_error_where_an_end_is_awaited(
    broker: Any, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader up to the end cannot report that it got there."""
    name = prefix()
    cluster.make(f"{name}.transaction")
    cluster.send([end(name, 0, 5, 70)])
    client = Client(broker.bootstrap)

    class Leaving(KafkaTopics):
        """The broker dies when everything has been checked, and before the first record."""

        def check(self, positions: Any, *, follow: bool = False) -> Any:
            found = super().check(positions, follow=follow)
            monkeypatch.setattr(self, "missing", list)
            broker.kill9()
            client.patience = 2.0
            return found

    with pytest.raises(UnavailableError, match=f"does not answer for topic '{name}.transaction'"):
        list(Leaving(client, small(name)).read({}))
    broker.restart()


def test_a_broker_that_is_not_there_is_named(tmp_path: Path) -> None:
    """Where it was looked for, and nothing of how we log in."""
    from cdcv2.servers.processes import free_port

    settings = tmp_path / "kafka.properties"
    settings.write_text("sasl.username=me\nsasl.password=s3cret\n")
    nowhere = f"127.0.0.1:{free_port()}"
    topics = KafkaTopics(Client(nowhere, settings, patience=0.5), small("p"))
    with pytest.raises(UnavailableError, match=f"Kafka at {nowhere} does not answer") as caught:
        list(topics.read({}))
    assert "s3cret" not in str(caught.value)
